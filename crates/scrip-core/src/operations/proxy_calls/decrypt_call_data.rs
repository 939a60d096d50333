//! Decrypts the data that a client encrypted for one proxied call.

use std::sync::Arc;

use scrip_expression::{Reference, ReferenceKind};
use serde_json::{Map, Value};

use crate::{
    Error, Timestamp, Vault,
    id::ClientKeyId,
    idempotency::proxy_call::CallDataComparison,
    operations::check_request_quota,
    policy::{Caller, Permission, Transform, UseRight, guessing_budget::EvaluatedEntity},
    token::{Containers, EncryptedData, Plaintext, cvc::cvc_expiry},
};

/// The name by which expressions of a call read the data.
const REFERENCE_NAME: &str = "encrypted";

/// The encrypted data of a call, as the header contains it.
#[derive(Debug)]
pub enum EncryptedCallData {
    Single(EncryptedData),
    /// With the names that the client chose.
    Named(Vec<(String, EncryptedData)>),
}

/// The decrypted data of a call. It is wiped at the end of the call. `P` decides who can read it.
#[derive(Debug)]
pub struct DecryptedCallData<P> {
    /// An object with `type` and `data`, or an object of such objects.
    value: P,
    /// The same value, to compare calls with the same idempotency key.
    comparison: CallDataComparison,
    pub(super) parts: Arc<[DecryptedPart]>,
}

/// One decrypted value.
#[derive(Debug)]
pub(super) struct DecryptedPart {
    pub(super) key: Option<ClientKeyId>,
    /// The default container of its type, in which the caller needs the right.
    pub(super) containers: Containers,
    pub(super) cvc_expires_at: Option<Timestamp>,
    /// The data, if the caller may use and not read it.
    pub(super) hidden_data: Option<EvaluatedEntity>,
    /// As in [`HiddenData`](crate::operations::reference_data::HiddenData).
    pub(super) is_sent_anywhere: bool,
}

/// Decrypts the data. The caller chooses the request, so it needs `token:use` in the default
/// container of each type; `proxy:invoke` is for data that is already in the vault.
///
/// # Errors
/// The caller does not have this right, there are more values than the quota allows, a key is
/// unknown or expired, or a value is invalid.
pub fn decrypt_call_data<P: From<Plaintext>>(
    vault: &Vault,
    caller: &Caller,
    encrypted: EncryptedCallData,
) -> Result<DecryptedCallData<P>, Error> {
    let mut decryption = Decryption { vault, caller, parts: Vec::new() };
    let value = match encrypted {
        EncryptedCallData::Single(data) => decryption.decrypt("", &data)?,
        EncryptedCallData::Named(values) => {
            let limit = caller.tenant().quotas.proxy_token_limit;
            check_request_quota(values.len(), limit, "proxy_token_limit")?;
            // Wiped if a later value fails.
            let mut object = Plaintext::new(Value::Object(Map::new()));
            for (name, data) in values {
                let value = decryption.decrypt(&name, &data)?;
                if let Some(object) = object.expose_mut().as_object_mut() {
                    object.insert(name, value.into_exposed());
                }
            }
            object
        }
    };
    let comparison = CallDataComparison::new(value.duplicate());
    Ok(DecryptedCallData { value: value.into(), comparison, parts: decryption.parts.into() })
}

struct Decryption<'a> {
    vault: &'a Vault,
    caller: &'a Caller,
    parts: Vec<DecryptedPart>,
}

impl Decryption<'_> {
    fn decrypt(&mut self, path: &str, encrypted: &EncryptedData) -> Result<Plaintext, Error> {
        let Self { vault, caller, .. } = *self;
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
        let mut data = encrypted.decrypt(vault, caller).map_err(with_path)?;
        let checked = token_type.check(data.expose_mut(), caller.tenant().kind);
        checked.map_err(|it| with_path(Error::Invalid(it)))?;
        let has_cvc = token_type.is_card() && data.expose().get("cvc").is_some();
        let cvc_expires_at = has_cvc.then(|| cvc_expiry(caller, vault.clock.now()));
        let right_to_read = caller.transform(Permission::TokenRead, &containers);
        let hidden_data = (right_to_read != Some(Transform::Reveal))
            .then(|| EvaluatedEntity::from_client_key(caller.tenant(), encrypted.key_id()));
        let key = encrypted.key_id();
        let is_sent_anywhere = caller.sends_anywhere(&containers);
        let part = DecryptedPart { key, containers, cvc_expires_at, hidden_data, is_sent_anywhere };
        self.parts.push(part);
        let mut object = Map::new();
        object.insert("type".to_owned(), token_type.as_str().into());
        object.insert("data".to_owned(), data.into_exposed());
        Ok(Plaintext::new(Value::Object(object)))
    }
}

impl<P> DecryptedCallData<P> {
    /// The value of `encrypted` in expressions.
    #[must_use]
    pub fn value(&self) -> &P {
        &self.value
    }

    /// The value by which calls are compared.
    #[must_use]
    pub fn comparison(&self) -> &CallDataComparison {
        &self.comparison
    }

    /// Whether the reference means this data, and not a token.
    pub(crate) fn is_named_by(reference: &Reference) -> bool {
        reference.kind == ReferenceKind::Data && reference.id == REFERENCE_NAME
    }
}
