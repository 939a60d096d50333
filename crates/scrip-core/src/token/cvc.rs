//! The card verification code (CVC): stored separately from the card, encrypted with an epoch key
//! that is destroyed later.

use std::time::Duration;

use scrip_seal::{EpochKeyError, EpochKeys, KeyPresence, OpenedValue, Place, Sealed, Secret};
use serde_json::Value;

use crate::{
    Error, Timestamp,
    card::TokenType,
    policy::Caller,
    types::{
        Plaintext,
        id::{TenantId, TokenId},
    },
};

/// A CVC between parsing and sealing, or between opening and response. `Debug` does not print it.
#[derive(Debug)]
pub struct Cvc(Secret);

/// The stored CVC. It is not readable after `expires_at`, and not recoverable after its epoch key
/// is destroyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CvcRecord {
    pub expires_at: Timestamp,
    pub sealed: Sealed,
}

impl Cvc {
    pub fn new(text: String) -> Self {
        Self(Secret::new(text.into_bytes()))
    }

    /// The only access to the text.
    pub fn expose(&self) -> &str {
        std::str::from_utf8(self.0.expose()).unwrap_or_default()
    }

    /// Seals with the key that [`load_cvc_key`] loaded.
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
    /// Decrypts the CVC. `None` after it expired or its key was destroyed.
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
            // An error, because a response without the CVC would state that there is none.
            OpenedValue::KeyNotLoaded => Err(EpochKeyError::NotLoaded.into()),
        }
    }

    /// Whether the CVC expired or its key is destroyed. Loads the key if another node created it.
    /// Errors: the other nodes do not respond.
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

/// The place of a token's CVC.
pub(crate) fn cvc_place(tenant: TenantId, token: &TokenId, expires_at: Timestamp) -> Place {
    let tenant = tenant.0.as_bytes();
    Place::new("token.cvc").bytes(tenant).text(token.as_str()).number(expires_at.unix_ms)
}

/// Removes the CVC from the data.
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

/// Whether [`take_cvc`] would find a CVC.
pub(crate) fn has_cvc_value(token_type: TokenType, data: &Plaintext) -> bool {
    token_type.has_cvc() && data.expose().get("cvc").is_some_and(|it| !it.is_null())
}

/// The data with its CVC, for a caller that may see both.
pub(crate) fn with_cvc(mut data: Plaintext, cvc: Option<&Cvc>) -> Plaintext {
    if let (Some(cvc), Some(object)) = (cvc, data.expose_mut().as_object_mut()) {
        object.insert("cvc".to_owned(), cvc.expose().into());
    }
    data
}

/// How long an answer is stored if it can repeat a CVC that the caller may not read.
const HIDDEN_ANSWER_LIFETIME: Duration = Duration::from_mins(15);

/// When such an answer ends: with a CVC that was written now, or earlier.
pub(crate) fn hidden_answer_end(caller: &Caller, now: Timestamp) -> Timestamp {
    cvc_expiry(caller, now).min(now.plus(HIDDEN_ANSWER_LIFETIME))
}

/// The expiry of a CVC that is submitted now.
pub(crate) fn cvc_expiry(caller: &Caller, now: Timestamp) -> Timestamp {
    now.plus(caller.tenant().quotas.cvc_retention())
}

/// Loads the key for a new CVC. The nodes may share the key, so it may be remote.
/// Errors: the key is shared and not available. Nothing was changed.
pub(crate) async fn load_cvc_key(
    epochs: &EpochKeys,
    caller: &Caller,
    now: Timestamp,
) -> Result<(), Error> {
    Ok(epochs.load_sealing_key(cvc_expiry(caller, now).unix_ms).await?)
}

/// Seals a new CVC. Its lifetime starts now.
/// Errors: [`load_cvc_key`] was not called for this time.
pub(crate) fn seal_cvc(
    epochs: &EpochKeys,
    caller: &Caller,
    cvc: &Cvc,
    token: &TokenId,
    now: Timestamp,
) -> Result<CvcRecord, Error> {
    let expires_at = cvc_expiry(caller, now);
    cvc.seal(epochs, &cvc_place(caller.tenant().id, token, expires_at), expires_at)
}
