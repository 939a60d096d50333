//! The stored row of a tenant.

use scrip_seal::{Place, Sealed, WrappedTenantKeys};

use crate::{
    Timestamp,
    policy::{
        ChangeStamp, DisplayName, Quotas, TenantSettings,
        entity::{Column, Entity, EntityRecord, EntityWrites, InvalidRow, RowReader, RowWriter},
    },
    types::{TenantKind, id::TenantId},
};

pub const TENANT: Entity = Entity {
    table: "tenants",
    name: "tenant",
    kind: "tenant",
    mac_kind: "policy.tenant",
    columns: &[
        Column::id("id").key(),
        Column::text("name"),
        Column::text("kind"),
        Column::text("settings"),
        Column::text("quotas"),
        // A restoration replaces the row, so it also writes the stamp of the creation.
        Column::id("created_by").optional(),
        Column::number("created_at"),
        Column::id("modified_by").optional(),
        Column::number("modified_at").optional(),
        Column::number("deletes_at").optional(),
        Column::mac("mac"),
        // The seal of the whole policy, which is written after all rows.
        Column::number("policy_counter").unsigned(),
        Column::bytes("policy_mac").unsigned(),
        Column::number("sealing_version").added(),
    ],
    writes: EntityWrites::Upsert,
};

/// The stored row of a tenant. Its keys are stored in two other tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRecord {
    pub id: TenantId,
    pub name: DisplayName,
    pub kind: TenantKind,
    pub settings: TenantSettings,
    pub quotas: Quotas,
    pub keys: WrappedTenantKeys,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
    /// When the keys of a deleted tenant are destroyed.
    pub deletes_at: Option<Timestamp>,
}

impl EntityRecord for TenantRecord {
    const ENTITY: &'static Entity = &TENANT;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        row.put("id", self.id.0);
        row.put("name", self.name.as_str());
        row.put("kind", self.kind.as_str());
        row.put("settings", self.settings.to_text());
        row.put("quotas", self.quotas.to_text());
        row.put_created(self.created);
        row.put_modified(self.modified);
        row.put("deletes_at", self.deletes_at);
        row.put("policy_counter", 0_i64);
        row.put("policy_mac", b"".as_slice());
        row.put("sealing_version", self.keys.promoted.map(i64::from));
    }

    /// Reads the row without its keys.
    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        let promoted = row.optional_number("sealing_version")?.map(u32::try_from);
        let keys = WrappedTenantKeys {
            sealing: Vec::new(),
            promoted: promoted.transpose().map_err(|_| InvalidRow)?,
            permanent: Sealed::from_stored(Vec::new()),
        };
        Ok(Self {
            id: row.tenant()?,
            name: row.text("name", DisplayName::from_stored)?,
            kind: row.text("kind", TenantKind::parse)?,
            settings: row.text("settings", TenantSettings::from_text)?,
            quotas: row.text("quotas", Quotas::from_text)?,
            keys,
            created: row.created()?,
            modified: row.modified()?,
            deletes_at: row.optional_time("deletes_at")?,
        })
    }

    /// Includes the wrapped keys, so that a rollback to old keys is detected.
    fn add_other_values(&self, after: &Column, place: Place) -> Place {
        if after.name != "quotas" {
            return place;
        }
        let place = place.bytes(self.keys.permanent.as_bytes());
        self.keys.sealing.iter().fold(place, |place, (version, key)| {
            place.number(i64::from(*version)).bytes(key.as_bytes())
        })
    }
}
