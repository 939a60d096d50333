//! The stored row of a proxy.

use scrip_seal::Sealed;

use crate::{
    policy::{
        ChangeStamp, DisplayName,
        destination::HostName,
        entity::{
            Column, Entity, EntityRecord, EntityWrites, InvalidRow, RestoreEffect, RestoreWarning,
            RowReader, RowWriter,
        },
    },
    types::id::{ApplicationId, ProxyId, TenantId},
};

pub const PROXY: Entity = Entity {
    table: "proxies",
    name: "proxy",
    kind: "proxy",
    mac_kind: "policy.proxy",
    columns: &[
        Column::id("tenant").key(),
        Column::id("id").key(),
        Column::bytes("digest").constant().unique(),
        Column::text("name"),
        Column::id("application").optional(),
        Column::number("require_auth"),
        Column::number("disable_detokenization"),
        Column::text("host").optional().unique(),
        Column::sealed("settings", SETTINGS),
        Column::sealed("secrets", SECRETS),
        Column::id("created_by").optional().constant(),
        Column::number("created_at").constant(),
        Column::id("modified_by").optional(),
        Column::number("modified_at").optional(),
        Column::mac("mac"),
    ],
    writes: EntityWrites::Upsert,
    restore_warning: Some(RestoreWarning {
        changes: &[RestoreEffect::ComesBack, RestoreEffect::Changes],
        text: "proxies that come back or change send data to the destinations of the backup",
    }),
};

pub(in crate::policy) const SETTINGS: &str = "proxy.settings";
pub(super) const SECRETS: &str = "proxy.secrets";

/// The stored row of a proxy: a signed row of the policy. The columns that lookups and decisions
/// need are in clear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRecord {
    pub id: ProxyId,
    pub tenant: TenantId,
    /// The digest of the proxy's key. The key itself is in the sealed secrets.
    pub digest: [u8; 32],
    pub name: DisplayName,
    /// The application that lends its rights to the proxy. It may have been deleted since.
    pub application: Option<ApplicationId>,
    /// Whether a caller needs an API key besides the key of the proxy.
    pub require_auth: bool,
    pub disable_detokenization: bool,
    /// The host that selects the proxy without its key. Only the operator sets it.
    pub host: Option<HostName>,
    pub settings: Sealed,
    pub secrets: Sealed,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
}

impl EntityRecord for ProxyRecord {
    const ENTITY: &'static Entity = &PROXY;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        row.put("tenant", self.tenant.0);
        row.put("id", self.id.0);
        row.put("digest", self.digest.as_slice());
        row.put("name", self.name.as_str());
        row.put("application", self.application.map(|it| it.0));
        row.put("require_auth", self.require_auth);
        row.put("disable_detokenization", self.disable_detokenization);
        row.put("host", self.host.as_ref().map(HostName::as_str));
        row.put("settings", self.settings.as_bytes());
        row.put("secrets", self.secrets.as_bytes());
        row.put_created(self.created);
        row.put_modified(self.modified);
    }

    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        Ok(Self {
            id: ProxyId(row.id("id")?),
            tenant: row.tenant()?,
            digest: row.digest("digest")?,
            name: row.text("name", DisplayName::from_stored)?,
            application: row.optional_id("application")?.map(ApplicationId),
            require_auth: row.flag("require_auth")?,
            disable_detokenization: row.flag("disable_detokenization")?,
            host: row.optional_text("host", HostName::from_stored)?,
            settings: row.sealed("settings")?,
            secrets: row.sealed("secrets")?,
            created: row.created()?,
            modified: row.modified()?,
        })
    }
}
