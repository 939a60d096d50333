//! Making a token of an intent.

use crate::{
    Error, FieldError, Timestamp, Vault,
    id::TokenIntentId,
    policy::{Caller, Permission},
    token::{Containers, NewToken, Plaintext, TokenSource, TokenType, intent::IntentBody},
};

/// Where a draft's data comes from.
pub(crate) struct TokenDataSource {
    pub(crate) token_type: TokenType,
    pub(crate) data: Plaintext,
    /// The intent that ends with it.
    pub(crate) intent: Option<SourceIntent>,
}

/// What a conversion needs to know of its intent.
pub(crate) struct SourceIntent {
    pub(crate) id: TokenIntentId,
    pub(crate) containers: Containers,
    pub(crate) expires_at: Timestamp,
}

/// Takes the data out of the request, or out of the intent that it names. The intent's code stays
/// behind.
///
/// # Errors
/// There is no such live intent.
pub(crate) async fn load_data_source(
    vault: &Vault,
    caller: &Caller,
    new: &mut NewToken,
) -> Result<TokenDataSource, Error> {
    let taken = std::mem::replace(&mut new.source, TokenSource::Intent(String::new()));
    let text = match taken {
        TokenSource::Data { token_type, data } => {
            return Ok(TokenDataSource { token_type, data, intent: None });
        }
        TokenSource::Intent(text) => text,
    };
    let id = TokenIntentId::parse(&text).ok_or_else(unknown_intent_error)?;
    let lookup = caller.permit_lookup(Permission::TokenCreate)?;
    let found = vault.store.find_token_intent(lookup, id, vault.clock.latest()).await?;
    let record = found.ok_or_else(unknown_intent_error)?.record;
    let body = IntentBody::open(caller.tenant(), &record)?;
    let intent = SourceIntent { id, containers: record.containers, expires_at: record.expires_at };
    Ok(TokenDataSource { token_type: record.token_type, data: body.data, intent: Some(intent) })
}

pub(crate) fn unknown_intent_error() -> Error {
    FieldError::new("token_intent_id", "is no token intent of this tenant, or not any more").into()
}
