//! Decrypts the data that a client encrypted for one proxied call.

use serde_json::{Map, Value, json};

use crate::{
    Error, FieldError, Vault,
    disclosure::withholds_typed,
    equality::EvaluatedEntity,
    idempotency::proxy_call::CallDataComparison,
    operations::{
        check_request_quota,
        reference_data::{DecryptedCallData, DecryptedPart},
    },
    policy::{Caller, DestinationChoice, UseRight},
    token::{
        EncryptedData,
        body::{cvc_expiry, hidden_answer_end},
    },
    types::{Containers, Permission, Plaintext, Transform, error::Denial},
};

/// The encrypted data of a call, as the header contains it.
#[derive(Debug)]
pub enum EncryptedCallData {
    Single(EncryptedData),
    /// With the names that the client chose.
    Named(Vec<(String, EncryptedData)>),
}

/// Decrypts the data.
///
/// The caller chooses the request, so it needs `token:use` in the default container of each type;
/// `proxy:invoke` is for data that is already in the vault. A payer may have typed the data just
/// now, so no browser reads it, computes with it or chooses its destination.
/// Errors: the caller does not have this right, a browser names its own destination, there are more
/// values than the quota allows, a key is unknown or expired, a value is invalid, or the budget of
/// a value that the caller may not read is exhausted.
pub async fn decrypt_call_data<P: From<Plaintext>>(
    vault: &Vault,
    caller: &Caller,
    encrypted: &EncryptedCallData,
    right: UseRight,
    destinations: DestinationChoice,
) -> Result<DecryptedCallData<P>, Error> {
    if let EncryptedCallData::Named(values) = encrypted {
        let limit = caller.tenant().quotas.proxy_token_limit;
        check_request_quota(values.len(), limit, "proxy_token_limit")?;
    }
    let is_withheld = withholds_typed(caller, Some(vault.clock.now()));
    if is_withheld && right == UseRight::EphemeralProxy {
        return Err(Error::Forbidden(Denial::LaterTypedData));
    }
    let mut decryption = Decryption { vault, caller, destinations, is_withheld, parts: Vec::new() };
    let value = match encrypted {
        EncryptedCallData::Single(data) => decryption.decrypt("", data).await?,
        EncryptedCallData::Named(values) => {
            // Wiped if a later value fails.
            let mut object = Plaintext::new(Value::Object(Map::new()));
            for (name, data) in values {
                let value = decryption.decrypt(name, data).await?;
                if let Some(object) = object.expose_mut().as_object_mut() {
                    object.insert(name.clone(), value.into_exposed());
                }
            }
            object
        }
    };
    let is_hidden = decryption.parts.iter().any(|it| it.hidden_data.is_some());
    let comparison = if is_hidden { encrypted.as_sent() } else { value.duplicate() };
    let comparison = CallDataComparison::new(comparison);
    Ok(DecryptedCallData { value: value.into(), comparison, parts: decryption.parts.into() })
}

impl EncryptedCallData {
    /// The types and the encrypted texts.
    fn as_sent(&self) -> Plaintext {
        let member = |it: &EncryptedData| json!([it.token_type.as_str(), it.as_sent()]);
        Plaintext::new(match self {
            Self::Single(data) => member(data),
            Self::Named(values) => {
                let members = values.iter().map(|(name, data)| (name.clone(), member(data)));
                Value::Object(members.collect())
            }
        })
    }
}

/// That the data does not fit its type is known; why is not.
const TYPE_RULE: &str = "does not fit its type";

struct Decryption<'a> {
    vault: &'a Vault,
    caller: &'a Caller,
    destinations: DestinationChoice,
    /// Whether the caller may not read the data, whatever its rights are.
    is_withheld: bool,
    parts: Vec<DecryptedPart>,
}

impl Decryption<'_> {
    async fn decrypt(&mut self, path: &str, encrypted: &EncryptedData) -> Result<Plaintext, Error> {
        let Self { vault, caller, destinations, is_withheld, .. } = *self;
        let token_type = encrypted.token_type;
        let containers = Containers::from(token_type.default_container());
        caller.permit_use(UseRight::EphemeralProxy, &containers)?;
        let with_path = |error| {
            let Error::Invalid(fields) = error else { return error };
            if path.is_empty() {
                return Error::Invalid(fields);
            }
            Error::Invalid(fields.into_iter().map(|it| it.prefix_path(path)).collect())
        };
        let right_to_read = caller.transform(Permission::TokenRead, &containers);
        let is_hidden = is_withheld || right_to_read != Some(Transform::Reveal);
        let hidden_data = is_hidden.then(|| {
            EvaluatedEntity::from_encryption(caller.tenant(), encrypted.encrypted_parts())
        });
        let mut data =
            encrypted.decrypt_any_type(caller, vault.clock.latest()).map_err(with_path)?;
        let checked = encrypted.check_type(&data).map_err(Error::from).and_then(|()| {
            let checked = token_type.check(data.expose_mut(), caller.tenant().kind);
            checked.map_err(Error::Invalid)
        });
        match (checked, hidden_data) {
            (Ok(()), None) => (),
            // Otherwise a caller whose budget is exhausted would still learn that the type fits.
            (Ok(()), Some(hidden)) => vault.check_rejected_evaluations(caller, &[hidden]).await?,
            (Err(error), None) => return Err(with_path(error)),
            (Err(_), Some(hidden)) => {
                vault.count_rejected_evaluation(caller, &[hidden]).await?;
                return Err(with_path(FieldError::new("encrypted", TYPE_RULE).into()));
            }
        }
        let (has_cvc, now) = (data.expose().get("cvc").is_some(), vault.clock.now());
        let cvc_expires_at = (token_type.is_card() && has_cvc).then(|| cvc_expiry(caller, now));
        let is_sent_anywhere = caller.sends_anywhere(destinations, &containers);
        let answer_ends_at = match is_hidden && !is_sent_anywhere {
            true => token_type.has_cvc().then(|| hidden_answer_end(caller, now)),
            false => cvc_expires_at,
        };
        let key = encrypted.key_id();
        self.parts.push(DecryptedPart {
            key,
            containers,
            cvc_expires_at,
            answer_ends_at,
            hidden_data,
            is_sent_anywhere,
        });
        let mut object = Map::new();
        object.insert("type".to_owned(), token_type.as_str().into());
        object.insert("data".to_owned(), data.into_exposed());
        Ok(Plaintext::new(Value::Object(object)))
    }
}
