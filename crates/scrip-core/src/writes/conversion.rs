//! The data of a new token: from the request, from an intent, or encrypted by a client.

use crate::{
    Error, FieldError, Vault,
    disclosure::{TokenDataSource, marks_encrypted, misplaces_field_values},
    policy::Caller,
    token::{DataOrigin, NewToken, SourceIntent, TokenSource, intent::IntentBody},
    types::{Containers, Permission, id::TokenIntentId},
};

/// Takes the data from the request or from the named intent, or decrypts it. The CVC of the intent
/// is not included.
/// Errors: there is no such live intent, or the data cannot be decrypted.
pub(crate) async fn load_data_source(
    vault: &Vault,
    caller: &Caller,
    new: &mut NewToken,
) -> Result<TokenDataSource, Error> {
    let source = std::mem::replace(&mut new.source, TokenSource::Intent(String::new()));
    let now = vault.clock.now();
    let typed_at = caller.carries_typed_values().then_some(now);
    let is_marked = |origin: &DataOrigin, token_type| {
        let is_encrypted = matches!(origin, DataOrigin::Encrypted);
        caller.marks_fields() || is_encrypted && marks_encrypted(caller, token_type)
    };
    let text = match source {
        TokenSource::Data { token_type, data } => {
            let origin = DataOrigin::Request;
            // Of a request with several tokens, the vault does not know which one has the value.
            let is_marked = is_marked(&origin, token_type)
                || misplaces_field_values(caller, token_type, data.expose());
            let places = Vec::new();
            return Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places });
        }
        TokenSource::Encrypted(encrypted) => {
            let data = encrypted.decrypt(caller, vault.clock.latest())?;
            let (token_type, origin) = (encrypted.token_type, DataOrigin::Encrypted);
            let is_marked = is_marked(&origin, token_type);
            let typed_at = Some(now);
            let places = vec![Containers::from(token_type.default_container()).into()];
            return Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places });
        }
        TokenSource::Collected(collected) => {
            let (token_type, data, origin, places) = collected.open();
            let is_marked = is_marked(&origin, token_type);
            let typed_at = Some(now);
            return Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places });
        }
        TokenSource::Intent(text) => text,
    };
    let id = TokenIntentId::parse(&text).ok_or_else(unknown_intent_error)?;
    let lookup = caller.permit_lookup(Permission::TokenCreate)?;
    let stored = vault.store.find_token_intent(lookup, id, vault.clock.latest()).await?;
    let record = stored.ok_or_else(unknown_intent_error)?.record;
    let body = IntentBody::open(caller.work(), caller.tenant(), &record)?;
    let intent = SourceIntent {
        id,
        containers: record.containers,
        created_by: record.created_by,
        expires_at: record.expires_at,
        is_counted: record.fingerprint.is_some(),
    };
    let places = vec![intent.containers.clone().into()];
    let origin = DataOrigin::Intent(intent);
    let is_marked = caller.marks_fields() || body.is_marked;
    let (token_type, data) = (record.token_type, body.data);
    let typed_at = typed_at.or_else(|| body.is_typed.then_some(record.created_at));
    Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places })
}

pub(crate) fn unknown_intent_error() -> Error {
    FieldError::new("token_intent_id", "is not a live token intent of this tenant").into()
}
