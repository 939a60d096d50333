//! Access sessions. A browser gets a key that has no rights until a private application delegates
//! rights to it.

use std::{fmt, time::Duration};

use scrip_seal::Place;
use scrip_types::hex::{decode_hex, encode_hex};

use crate::{
    Timestamp,
    policy::{
        AccessPolicy, Tenant,
        entity::{Column, Entity, EntityRecord, EntityWrites, InvalidRow, RowReader, RowWriter},
    },
    types::id::{ApiKeyId, ApplicationId, TenantId},
};

/// The id of an access session: the digest of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessSessionId(pub [u8; 32]);

impl AccessSessionId {
    /// Parses a whole id: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        decode_hex(&text.to_ascii_lowercase()).map(Self)
    }
}

impl fmt::Display for AccessSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(&self.0))
    }
}

/// The default lifetime of an access session.
pub(crate) const ACCESS_SESSION_LIFETIME: Duration = Duration::from_secs(3 * 60);
/// The maximum lifetime of an access session.
pub(crate) const ACCESS_SESSION_LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

pub const ACCESS_SESSION: Entity = Entity {
    table: "access_sessions",
    name: "access_session",
    kind: "access session",
    mac_kind: "policy.access-session",
    columns: &[
        Column::id("tenant").key(),
        Column::bytes("digest").key(),
        Column::bytes("nonce"),
        Column::id("application"),
        Column::number("created_at"),
        Column::number("expires_at"),
        Column::id("authorized_by").optional(),
        Column::id("authorized_key").optional(),
        Column::number("authorized_at").optional(),
        Column::text("access").optional(),
        Column::mac("mac"),
    ],
    writes: EntityWrites::InsertAndUpdate,
    restore_warning: None,
};

/// The stored row of an access session. It has its own MAC and is not part of the policy seal of
/// the tenant, because there are many access sessions and they expire within minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSessionRecord {
    pub id: AccessSessionId,
    pub tenant: TenantId,
    /// The public application that created the session.
    pub application: ApplicationId,
    /// The digest of the nonce that a private application needs to authorize the session.
    pub nonce: [u8; 32],
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub grant: Option<AccessSessionGrant>,
}

/// The authorization of a session. A session is authorized at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSessionGrant {
    pub authorizer: ApplicationId,
    /// The API key that authorized the session. The session ends when this key is deleted.
    pub api_key: ApiKeyId,
    pub at: Timestamp,
    pub access: AccessPolicy,
}

impl AccessSessionRecord {
    /// Whether the API key that authorized the session still exists. True for a session that waits
    /// to be authorized.
    pub fn is_authorizing_key_live(&self, tenant: &Tenant) -> bool {
        self.grant.as_ref().is_none_or(|it| {
            let keys = tenant.applications.get(&it.authorizer).map(|it| it.api_keys.as_slice());
            keys.is_some_and(|keys| keys.iter().any(|key| key.id == it.api_key))
        })
    }
}

impl EntityRecord for AccessSessionRecord {
    const ENTITY: &'static Entity = &ACCESS_SESSION;

    fn write<'a>(&'a self, row: &mut RowWriter<'a>) {
        let grant = self.grant.as_ref();
        row.put("tenant", self.tenant.0);
        row.put("digest", self.id.0.as_slice());
        row.put("nonce", self.nonce.as_slice());
        row.put("application", self.application.0);
        row.put("created_at", self.created_at);
        row.put("expires_at", self.expires_at);
        row.put("authorized_by", grant.map(|it| it.authorizer.0));
        row.put("authorized_key", grant.map(|it| it.api_key.0));
        row.put("authorized_at", grant.map(|it| it.at));
        row.put("access", grant.map(|it| it.access.to_text()));
    }

    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow> {
        let authorizer = row.optional_id("authorized_by")?.map(ApplicationId);
        let api_key = row.optional_id("authorized_key")?.map(ApiKeyId);
        let grant = match (authorizer, api_key, row.optional_time("authorized_at")?) {
            (None, None, None) => None,
            (Some(authorizer), Some(api_key), Some(at)) => {
                let access = row.text("access", AccessPolicy::from_text)?;
                Some(AccessSessionGrant { authorizer, api_key, at, access })
            }
            (_, _, _) => return Err(InvalidRow),
        };
        Ok(Self {
            id: AccessSessionId(row.digest("digest")?),
            tenant: row.tenant()?,
            application: ApplicationId(row.id("application")?),
            nonce: row.digest("nonce")?,
            created_at: row.time("created_at")?,
            expires_at: row.time("expires_at")?,
            grant,
        })
    }

    /// Not derived: the MAC of stored sessions covers the digest before the tenant, and the
    /// application before the nonce.
    fn mac_place(&self) -> Place {
        let grant = self.grant.as_ref();
        let access = grant.map(|it| it.access.to_text());
        Place::new(ACCESS_SESSION.mac_kind)
            .bytes(&self.id.0)
            .bytes(self.tenant.0.as_bytes())
            .bytes(self.application.0.as_bytes())
            .bytes(&self.nonce)
            .number(self.created_at.unix_ms)
            .number(self.expires_at.unix_ms)
            .optional_bytes(grant.map(|it| it.authorizer.0.as_bytes().as_slice()))
            .optional_bytes(grant.map(|it| it.api_key.0.as_bytes().as_slice()))
            .optional_number(grant.map(|it| it.at.unix_ms))
            .optional_bytes(access.as_deref().map(str::as_bytes))
    }
}
