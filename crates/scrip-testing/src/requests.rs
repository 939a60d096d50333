//! Requests as a client would make them, and what their answers show.

use scrip_core::{
    Vault,
    error::{Denial, Error},
    id::TokenId,
    operations::tokens::{
        create_token::create_token, get_token::get_token, update_token::update_token,
    },
    policy::Caller,
    token::{NewToken, Plaintext, TokenPatch, TokenSource, TokenType, TokenView, WrittenToken},
};
use serde_json::{Value, json};

pub const VISA: &str = "4242424242424242";
pub const DEBIT: &str = "4000056655665556";

pub fn new_token(token_type: TokenType, data: Value) -> NewToken {
    NewToken {
        id: None,
        source: TokenSource::Data { token_type, data: Plaintext::new(data) },
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

pub fn data_patch(data: Value) -> TokenPatch {
    TokenPatch { data: Some(Plaintext::new(data)), ..TokenPatch::default() }
}

/// The same caller with the evaluation budget of a new request.
fn new_request(caller: &Caller) -> Caller {
    caller.clone().with_long_evaluations(|evaluate| {
        evaluate();
        true
    })
}

pub async fn create(vault: &Vault, caller: &Caller, new: NewToken) -> Result<WrittenToken, Error> {
    create_token(vault, &new_request(caller), new, None).await
}

pub async fn update(
    vault: &Vault,
    caller: &Caller,
    id: &TokenId,
    patch: TokenPatch,
) -> Result<WrittenToken, Error> {
    update_token(vault, &new_request(caller), id, patch, None).await
}

pub async fn get(vault: &Vault, caller: &Caller, id: &TokenId) -> TokenView {
    get_token(vault, &new_request(caller), id).await.unwrap()
}

/// The data that an answer shows; nothing when it shows none.
pub fn visible_data(view: &TokenView) -> Option<Value> {
    view.detail.as_ref()?.visible.data.as_ref().map(|it| it.expose().clone())
}

pub fn visible_cvc(view: &TokenView) -> Option<String> {
    view.detail.as_ref()?.visible.cvc.as_ref().map(|it| it.expose().to_owned())
}

#[track_caller]
pub fn expect_denial<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Denial {
    let Err(Error::Forbidden(denial)) = outcome else { panic!("{outcome:?}") };
    denial
}

/// The attribute that an answer complains about.
#[track_caller]
pub fn expect_invalid_field<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let Err(Error::Invalid(fields)) = outcome else { panic!("{outcome:?}") };
    fields[0].field.to_string()
}

/// The number with this place in a series of distinct and valid card numbers. Its digits look random: a number such as
/// 4000000000000002 would be found in any file with a run of zero bytes.
pub fn card_number(index: u64) -> String {
    const SPACE: u128 = 100_000_000_000_000;
    // Coprime to the space, so that no two places share a number.
    let scrambled = (u128::from(index) * 61_803_398_874_989 + 31_415_926_535_897) % SPACE;
    let payload = format!("4{scrambled:014}");
    let weigh = |(at, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0');
        if at % 2 == 1 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    let sum: u32 = payload.bytes().rev().enumerate().map(weigh).sum();
    format!("{payload}{}", (10 - sum % 10) % 10)
}

/// A payment that asks for no more than the rules do.
pub fn payment(holder: &str) -> Value {
    json!({
        "authentication_category": "payment",
        "authentication_type": "payment-transaction",
        "purchase_info": {
            "amount": "8000", "currency": "826", "exponent": "2", "date": "20261109141010",
            "transaction_type": "purchase",
        },
        "merchant_info": {
            "mid": "9876543210001", "acquirer_bin": "000000999", "name": "A shop",
            "category_code": "7922", "country_code": "826",
        },
        "requestor_info": {"id": "9876543210001", "name": "A shop", "url": "https://shop.example"},
        "cardholder_info": {"name": holder, "email": "ada@mail.example"},
    })
}
