//! Access sessions: a browser's key that has no rights until a private application lends it some.

use std::{fmt, time::Duration};

use scrip_seal::Place;

use crate::{
    id::{ApiKeyId, ApplicationId, TenantId},
    policy::{AccessPolicy, PolicyRow, Tenant},
    time::Timestamp,
};

/// The digest of its key is what it is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessSessionId(pub [u8; 32]);

impl AccessSessionId {
    /// A whole id, in hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(at.checked_mul(2)?..at.checked_mul(2)?.checked_add(2)?)?;
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

/// How long a session lasts when nobody says otherwise.
pub const ACCESS_SESSION_LIFETIME: Duration = Duration::from_secs(3 * 60);
/// And the longest that can be asked for.
pub const ACCESS_SESSION_LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// As the store keeps it: with a mac of its own, and outside the seal of the tenant's policy, for
/// there are many of them and they are gone in minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSessionRecord {
    pub id: AccessSessionId,
    pub tenant: TenantId,
    /// The public application that began it.
    pub application: ApplicationId,
    /// The digest of what a private application has to know to authorize it.
    pub nonce: [u8; 32],
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub grant: Option<AccessSessionGrant>,
}

/// Once, and never again.
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
        let authorized = self.grant.as_ref();
        let access = authorized.map(|it| it.access.to_text());
        Place::new("policy.access-session")
            .bytes(&self.id.0)
            .bytes(self.tenant.0.as_bytes())
            .bytes(self.application.0.as_bytes())
            .bytes(&self.nonce)
            .number(self.created_at.unix_ms)
            .number(self.expires_at.unix_ms)
            .optional_bytes(authorized.map(|it| it.authorizer.0.as_bytes().as_slice()))
            .optional_bytes(authorized.map(|it| it.api_key.0.as_bytes().as_slice()))
            .optional_number(authorized.map(|it| it.at.unix_ms))
            .optional_bytes(access.as_deref().map(str::as_bytes))
    }
}
