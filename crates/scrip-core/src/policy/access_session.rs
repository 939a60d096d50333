//! Access sessions. A browser gets a key that has no rights until a private application delegates
//! rights to it.

use std::{fmt, time::Duration};

use scrip_seal::Place;

use crate::{
    Timestamp,
    policy::{AccessPolicy, PolicyRow, Tenant},
    types::id::{ApiKeyId, ApplicationId, TenantId},
};

/// The id of an access session: the digest of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessSessionId(pub [u8; 32]);

impl AccessSessionId {
    /// Parses a whole id: 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(index.checked_mul(2)?..index.checked_mul(2)?.checked_add(2)?)?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for AccessSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| write!(f, "{it:02x}"))
    }
}

/// The default lifetime of an access session.
pub const ACCESS_SESSION_LIFETIME: Duration = Duration::from_secs(3 * 60);
/// The maximum lifetime of an access session.
pub const ACCESS_SESSION_LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

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
    #[must_use]
    pub fn is_authorizing_key_live(&self, tenant: &Tenant) -> bool {
        self.grant.as_ref().is_none_or(|it| {
            let keys = tenant.applications.get(&it.authorizer).map(|it| it.api_keys.as_slice());
            keys.is_some_and(|keys| keys.iter().any(|key| key.id == it.api_key))
        })
    }
}

impl PolicyRow for AccessSessionRecord {
    fn place(&self) -> Place {
        let grant = self.grant.as_ref();
        let access = grant.map(|it| it.access.to_text());
        Place::new("policy.access-session")
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
