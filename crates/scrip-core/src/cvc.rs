//! The card verification code: kept apart from the card, under a key that dies.

use scrip_seal::{EpochKeys, OpenEpoch, Place, Sealed, Secret};
use serde_json::Value;

use crate::{
    Vault,
    caller::Caller,
    error::Error,
    id::{TenantId, TokenId},
    plain::Plain,
    time::Timestamp,
    token_type::TokenType,
};

/// A code between parse and seal, or between open and answer. Cannot be printed.
#[derive(Debug)]
pub struct Cvc(Secret);

/// As the store keeps it. Out of sight at `expires_at`, out of reach when its epoch ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CvcRecord {
    pub expires_at: Timestamp,
    pub sealed: Sealed,
}

impl Cvc {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Secret::new(text.into_bytes()))
    }

    /// The only way in.
    #[must_use]
    pub fn expose(&self) -> &str {
        std::str::from_utf8(self.0.expose()).unwrap_or_default()
    }

    pub(crate) fn seal(
        &self,
        epochs: &EpochKeys,
        tenant: TenantId,
        token: &TokenId,
        expires_at: Timestamp,
    ) -> CvcRecord {
        self.seal_in(epochs, &place(tenant, token, expires_at), expires_at)
    }
}

impl Cvc {
    /// Somewhere else than at a token.
    pub(crate) fn seal_in(
        &self,
        epochs: &EpochKeys,
        place: &Place,
        expires_at: Timestamp,
    ) -> CvcRecord {
        CvcRecord { expires_at, sealed: epochs.seal(place, &self.0, expires_at.unix_ms) }
    }
}

impl CvcRecord {
    /// What [`Cvc::seal_in`] sealed there.
    pub(crate) fn open_in(
        &self,
        epochs: &EpochKeys,
        place: &Place,
        now: Timestamp,
    ) -> Result<Option<Cvc>, Error> {
        if self.expires_at <= now {
            return Ok(None);
        }
        match epochs.open(place, &self.sealed)? {
            OpenEpoch::Open(secret) => Ok(Some(Cvc(secret))),
            OpenEpoch::Gone => Ok(None),
        }
    }

    /// Nothing once its time is over, or its key is gone.
    pub(crate) fn open(
        &self,
        epochs: &EpochKeys,
        tenant: TenantId,
        token: &TokenId,
        now: Timestamp,
    ) -> Result<Option<Cvc>, Error> {
        self.open_in(epochs, &place(tenant, token, self.expires_at), now)
    }
}

fn place(tenant: TenantId, token: &TokenId, expires_at: Timestamp) -> Place {
    let tenant = tenant.0.as_bytes();
    Place::new("token.cvc").bytes(tenant).text(token.as_str()).number(expires_at.unix_ms)
}

/// From here on the data has no cvc.
pub(crate) fn take_cvc(token_type: TokenType, data: &mut Plain) -> Option<Cvc> {
    if !token_type.has_cvc() {
        return None;
    }
    match data.expose_mut().as_object_mut()?.remove("cvc")? {
        Value::String(text) => Some(Cvc::new(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// Seals a code that was just given: its time runs from now.
pub(crate) fn seal_cvc(
    vault: &Vault,
    caller: &Caller,
    cvc: &Cvc,
    token: &TokenId,
    now: Timestamp,
) -> CvcRecord {
    let tenant = caller.tenant();
    cvc.seal(&vault.epochs, tenant.id, token, now.after(tenant.quotas.cvc_retention()))
}
