//! The entities with hidden data on which a caller evaluates expressions.

use scrip_seal::IndexDigest;

use crate::{policy::Tenant, types::id::ProxyId};

/// The key of the counters of hidden data: a token or intent, one encryption of a
/// client, or a proxy.
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

    /// One encryption of data by a client, by the parts that identify it. It is no comparison of data:
    /// a client that does not know the data has this encryption only, and equal data has others. A
    /// counter that all data shares would let one visitor of a page lock out the others.
    pub(crate) fn from_encryption(tenant: &Tenant, encrypted_parts: [&[u8]; 2]) -> Self {
        let [nonce, ciphertext] = encrypted_parts;
        Self(tenant.keys.guess_digest(&[b"evaluated encryption", nonce, ciphertext]))
    }

    /// The configuration of a proxy.
    pub fn from_configuration(tenant: &Tenant, proxy: ProxyId) -> Self {
        Self(tenant.keys.guess_digest(&[b"evaluated configuration", proxy.0.as_bytes()]))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0.0
    }
}
