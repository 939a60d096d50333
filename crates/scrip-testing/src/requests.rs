//! Requests as a client would make them, and what their answers show.

use scrip_core::{
    Vault,
    caller::Caller,
    error::{Error, Refusal},
    id::TokenId,
    operations::{create_token::create_token, get_token::get_token, update_token::update_token},
    plain::Plain,
    token::{NewToken, TokenPatch, TokenSource, TokenView, Written},
    token_type::TokenType,
};
use serde_json::{Value, json};

pub const VISA: &str = "4242424242424242";
pub const DEBIT: &str = "4000056655665556";

pub fn new_token(token_type: TokenType, data: Value) -> NewToken {
    NewToken {
        id: None,
        source: TokenSource::Data { token_type, data: Plain::new(data) },
        mask: None,
        containers: None,
        metadata: None,
        search_indexes: None,
        fingerprint_expression: None,
        deduplicate: None,
        expires_at: None,
    }
}

pub fn card(number: &str) -> NewToken {
    new_token(TokenType::Card, json!({"number": number}))
}

pub fn card_with_cvc(number: &str, cvc: &str) -> NewToken {
    new_token(TokenType::Card, json!({"number": number, "cvc": cvc}))
}

pub fn patch_of(data: Value) -> TokenPatch {
    TokenPatch { data: Some(Plain::new(data)), ..TokenPatch::default() }
}

/// The same caller with the evaluation budget of a new request.
fn new_request(caller: &Caller) -> Caller {
    caller.clone().with_long_evaluations(|evaluate| {
        evaluate();
        true
    })
}

pub async fn create(vault: &Vault, caller: &Caller, new: NewToken) -> Result<Written, Error> {
    create_token(vault, &new_request(caller), new, None).await
}

pub async fn update(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    patch: TokenPatch,
) -> Result<Written, Error> {
    update_token(vault, &new_request(caller), id, patch, None).await
}

pub async fn get(vault: &Vault, caller: &Caller, id: &TokenId) -> TokenView {
    get_token(vault, &new_request(caller), id).await.unwrap()
}

/// The data that an answer shows; nothing when it shows none.
pub fn data(view: &TokenView) -> Option<Value> {
    view.detail.as_ref()?.shown.data.as_ref().map(|it| it.expose().clone())
}

pub fn cvc(view: &TokenView) -> Option<String> {
    view.detail.as_ref()?.shown.cvc.as_ref().map(|it| it.expose().to_owned())
}

#[track_caller]
pub fn refusal<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Refusal {
    let Err(Error::Forbidden(refusal)) = outcome else { panic!("{outcome:?}") };
    refusal
}

/// The attribute that an answer complains about.
#[track_caller]
pub fn invalid<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let Err(Error::Invalid(fields)) = outcome else { panic!("{outcome:?}") };
    fields[0].field.to_string()
}
