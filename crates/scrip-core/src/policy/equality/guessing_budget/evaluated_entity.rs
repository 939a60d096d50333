//! The entities with hidden data on which a caller evaluates expressions.

use scrip_seal::IndexDigest;

use crate::{
    id::{ClientKeyId, ProxyId},
    policy::Tenant,
};

/// The key of the counters of hidden data: a token or intent, a client key, or a proxy.
///
/// The data is no part of it. A caller can submit data, and a counter that equal data shares would tell
/// the caller whether its data equals the hidden one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluatedEntity(IndexDigest);

impl EvaluatedEntity {
    /// A token or intent.
    pub(crate) fn from_id(tenant: &Tenant, id: &str) -> Self {
        Self(tenant.keys.guess_digest(&[b"evaluated token", id.as_bytes()]))
    }

    /// All data that clients encrypted for this key.
    pub(crate) fn from_client_key(tenant: &Tenant, key: Option<ClientKeyId>) -> Self {
        let id = key.map(|it| it.to_string()).unwrap_or_default();
        Self(tenant.keys.guess_digest(&[b"evaluated client key", id.as_bytes()]))
    }

    /// The configuration of a proxy.
    #[must_use]
    pub fn from_configuration(tenant: &Tenant, proxy: ProxyId) -> Self {
        Self(tenant.keys.guess_digest(&[b"evaluated configuration", proxy.0.as_bytes()]))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0.0
    }
}
