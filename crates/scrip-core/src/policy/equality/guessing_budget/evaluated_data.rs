//! Data on which a caller evaluates expressions, and that it may not read.

use scrip_seal::IndexDigest;
use zeroize::Zeroizing;

use crate::{
    id::ProxyId,
    policy::Tenant,
    token::{Plaintext, TokenType},
};

/// The key of the counters of hidden data. A token has two: copies of the same data share one, and the
/// other one stays when the data is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluatedData(IndexDigest);

impl EvaluatedData {
    /// The data of a token or intent, or data that a client encrypted. The number of a card or of a
    /// bank account decides: its other attributes can be changed without knowing it.
    pub(crate) fn from_data(tenant: &Tenant, token_type: TokenType, data: &Plaintext) -> Self {
        let data = data.expose();
        let secret = token_type.secret_property().and_then(|it| data.get(it)).unwrap_or(data);
        let text = Zeroizing::new(secret.to_string());
        Self(tenant.keys.guess_digest(&[b"evaluated data", text.as_bytes()]))
    }

    /// A token or intent. Its counters stay when its data is changed.
    pub(crate) fn from_token_id(tenant: &Tenant, id: &str) -> Self {
        Self(tenant.keys.guess_digest(&[b"evaluated token", id.as_bytes()]))
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
