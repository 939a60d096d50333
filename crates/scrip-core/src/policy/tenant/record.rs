//! The stored row of a tenant.

use scrip_seal::{Place, Sealed, WrappedTenantKeys};
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp,
    policy::{
        ChangeStamp, DisplayName, Quotas,
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
    restore_warning: None,
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

/// Settings that a tenant can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantSettings {
    /// Whether tokens without their own fingerprint expression get a fingerprint.
    pub fingerprint_tokens: bool,
    /// Whether a create request that does not specify deduplication deduplicates.
    pub deduplicate_tokens: bool,
    pub token_deduplication_behavior: DeduplicationBehavior,
    /// Whether only pre-configured proxies can be called.
    pub disable_ephemeral_proxy: bool,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            fingerprint_tokens: true,
            deduplicate_tokens: false,
            token_deduplication_behavior: DeduplicationBehavior::ReadExisting,
            disable_ephemeral_proxy: false,
        }
    }
}

impl TenantSettings {
    /// The text form; the same in both engines.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` when the text is not the output of [`TenantSettings::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
    }
}

words! {
    /// The action of a create request that finds an existing token.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeduplicationBehavior {
        ReadExisting = "read_existing",
        UpdateExisting = "update_existing",
    }
}
