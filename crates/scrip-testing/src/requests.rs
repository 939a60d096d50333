//! Requests as a client sends them, and helpers to read the responses.

pub mod client_encryption;
pub mod http_client;
pub mod worst_inputs;

use scrip_core::{
    Error, Vault,
    card::TokenType,
    idempotency::RequestContent,
    operations::tokens::{
        create_token::create_token, get_token::get_token, update_token::update_token,
    },
    policy::Caller,
    token::{NewToken, TokenPatch, TokenSource, TokenView, WrittenToken},
    types::{Plaintext, error::Denial, id::TokenId},
};
use serde_json::{Value, json};

pub const VISA: &str = "4242424242424242";
pub const DEBIT: &str = "4000056655665556";

/// A request to compare with a repeated one.
pub const CREATE_REQUEST: RequestContent<'static> =
    RequestContent { method: "POST", path: "/tokens", body: None };

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
    caller.clone().with_long_evaluations(|_, evaluate| {
        evaluate();
        true
    })
}

/// The same caller with the evaluation budget of a new request, for which no slot is free.
pub fn request_without_slots(caller: &Caller) -> Caller {
    caller.clone().with_long_evaluations(|_, _| false)
}

pub async fn create(
    vault: &Vault,
    caller: &Caller,
    new_token: NewToken,
) -> Result<WrittenToken, Error> {
    create_token(vault, &new_request(caller), new_token, None).await
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

/// The data in a response, `None` if the response has no data.
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

/// Returns the attribute that the error of an invalid request names.
#[track_caller]
pub fn expect_invalid_field<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let Err(Error::Invalid(fields)) = outcome else { panic!("{outcome:?}") };
    fields[0].field.to_string()
}

/// The body with these members, which replace members of the same names.
#[must_use]
pub fn with_members(mut body: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object with the members") {
        body[name] = value.clone();
    }
    body
}

/// Expects these members, and possibly others, in a body.
#[track_caller]
pub fn assert_members(body: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object with the expected members") {
        assert_eq!(&body[name], value, "{name}");
    }
}

/// The card number with this index in a series of distinct valid numbers.
///
/// Its digits look random: tests search files for card numbers, and a number such as
/// 4000000000000002 would be found in any file with a run of zero bytes.
pub fn card_number(index: u64) -> String {
    const NUMBER_COUNT: u128 = 100_000_000_000_000;
    // The factor is coprime to the count, so that no two indexes have the same number.
    let scrambled = (u128::from(index) * 61_803_398_874_989 + 31_415_926_535_897) % NUMBER_COUNT;
    let payload = format!("4{scrambled:014}");
    let luhn_value = |(position, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0');
        if position % 2 == 1 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    let sum: u32 = payload.bytes().rev().enumerate().map(luhn_value).sum();
    format!("{payload}{}", (10 - sum % 10) % 10)
}

/// A payment with only the attributes that the rules require.
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
