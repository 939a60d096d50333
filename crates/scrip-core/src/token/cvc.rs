//! The card verification code: kept apart from the card, under a key that dies.

use scrip_seal::{EpochKeyError, EpochKeys, KeyPresence, OpenedValue, Place, Sealed, Secret};
use serde_json::Value;

use crate::{
    Error, Timestamp,
    id::{TenantId, TokenId},
    policy::Caller,
    token::{Plaintext, TokenType},
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

    /// With the key that [`prepare_cvc`] has put at hand.
    pub(crate) fn seal(
        &self,
        epochs: &EpochKeys,
        place: &Place,
        expires_at: Timestamp,
    ) -> Result<CvcRecord, Error> {
        let sealed = epochs.seal(place, &self.0, expires_at.unix_ms)?;
        Ok(CvcRecord { expires_at, sealed })
    }
}

impl CvcRecord {
    /// What [`Cvc::seal`] sealed there. Nothing once its time is over, or its key is gone.
    pub(crate) fn open(
        &self,
        epochs: &EpochKeys,
        place: &Place,
        now: Timestamp,
    ) -> Result<Option<Cvc>, Error> {
        if self.expires_at <= now {
            return Ok(None);
        }
        match epochs.open(place, &self.sealed, self.expires_at.unix_ms)? {
            OpenedValue::Open(secret) => Ok(Some(Cvc(secret))),
            OpenedValue::KeyDestroyed => Ok(None),
            // To leave it out would say that there is none.
            OpenedValue::KeyNotLoaded => Err(EpochKeyError::NotLoaded.into()),
        }
    }

    /// Asks other nodes for its key, if it is one of theirs; whether there is one.
    ///
    /// # Errors
    /// They do not answer.
    pub(crate) async fn is_unrecoverable(
        &self,
        epochs: &EpochKeys,
        now: Timestamp,
    ) -> Result<bool, Error> {
        if self.expires_at <= now {
            return Ok(true);
        }
        let presence = epochs.load_opening_key(&self.sealed, self.expires_at.unix_ms).await?;
        Ok(presence == KeyPresence::Destroyed)
    }
}

/// Where a token's cvc lives.
pub(crate) fn cvc_place(tenant: TenantId, token: &TokenId, expires_at: Timestamp) -> Place {
    let tenant = tenant.0.as_bytes();
    Place::new("token.cvc").bytes(tenant).text(token.as_str()).number(expires_at.unix_ms)
}

/// From here on the data has no cvc.
pub(crate) fn take_cvc(token_type: TokenType, data: &mut Plaintext) -> Option<Cvc> {
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

/// Whether [`take_cvc`] would find something there.
pub(crate) fn has_cvc_value(token_type: TokenType, data: &Plaintext) -> bool {
    token_type.has_cvc() && data.expose().get("cvc").is_some_and(|it| !it.is_null())
}

/// The data with its code, for a caller that may see both.
pub(crate) fn with_cvc(mut data: Plaintext, cvc: Option<&Cvc>) -> Plaintext {
    if let (Some(cvc), Some(object)) = (cvc, data.expose_mut().as_object_mut()) {
        object.insert("cvc".to_owned(), cvc.expose().into());
    }
    data
}

/// When a code ends that is given now.
pub(crate) fn cvc_expiry(caller: &Caller, now: Timestamp) -> Timestamp {
    now.plus(caller.tenant().quotas.cvc_retention())
}

/// Before a code is sealed that was just given: its key may be one that nodes share.
///
/// # Errors
/// It is, and cannot be asked for. Then nothing is done.
pub(crate) async fn load_cvc_key(
    epochs: &EpochKeys,
    caller: &Caller,
    now: Timestamp,
) -> Result<(), Error> {
    Ok(epochs.load_sealing_key(cvc_expiry(caller, now).unix_ms).await?)
}

/// Seals a code that was just given: its time runs from now.
///
/// # Errors
/// [`prepare_cvc`] was not called for this time.
pub(crate) fn seal_cvc(
    epochs: &EpochKeys,
    caller: &Caller,
    cvc: &Cvc,
    token: &TokenId,
    now: Timestamp,
) -> Result<CvcRecord, Error> {
    let ends = cvc_expiry(caller, now);
    cvc.seal(epochs, &cvc_place(caller.tenant().id, token, ends), ends)
}
