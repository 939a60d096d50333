//! Compares the examples of the OpenAPI document with rendered responses, and inserts data.

use scrip_core::{
    card::TokenType::{self, Bank, Card, NetworkToken, Token},
    idempotency::response::TokenSpan,
    policy::DeduplicationBehavior,
    types::Plaintext,
};
use serde_json::{Value, json};

use crate::{
    openapi::tests::assert_examples,
    wire::{
        response::render,
        tokens::token_response::{
            AdditionalBrandBody, BankBody, CardDetailsBody, CountryBody, DroppedAttributesBody,
            NO_MASK, TokenDetailBody, TokenExtrasBody, TokenInsert, TokenResponseBody,
            insert_token_data,
        },
    },
};

#[test]
fn documented_token_examples_match_rendered_bodies() {
    assert_examples("Token", get_token_examples());
    assert_examples("CreatedToken", examples(ResponseKind::Created));
    assert_examples("UpdatedToken", examples(ResponseKind::Updated));
}

/// The tokens as Get Token returns them.
pub(crate) fn get_token_examples() -> Vec<Value> {
    examples(ResponseKind::Found)
}

/// The response that an example belongs to.
#[derive(Clone, Copy)]
enum ResponseKind {
    Found,
    Created,
    Updated,
}

/// Together, the examples contain every attribute.
fn examples(kind: ResponseKind) -> Vec<Value> {
    let number = "XXXXXXXXXXXX4242";
    let bank = BankBody { routing_number: "021000021", account_number_last4: Some("6789") };
    let account_data = json!({"routing_number": "021000021", "account_number": "000123456789"});
    let card_data = json!({
        "number": "4242424242424242", "expiration_month": 12, "expiration_year": 2031, "cvc": "123",
    });
    let masked_data = json!({"number": number, "expiration_month": 12, "expiration_year": 2031});
    [
        (Card, TokenDetailBody { card: Some(card_example()), ..detail(Card) }, card_data),
        (
            NetworkToken,
            TokenDetailBody { network_token: Some(card_example()), ..detail(NetworkToken) },
            masked_data,
        ),
        (Bank, TokenDetailBody { bank: Some(bank), ..detail(Bank) }, account_data),
    ]
    .into_iter()
    .map(|(token_type, mut detail, data)| {
        if let (ResponseKind::Created, Card) = (kind, token_type) {
            (detail.modified_by, detail.modified_at) = (None, None);
        }
        let body = TokenResponseBody {
            id: "c06d0789-0a38-40be-b7cc-c28a6f76f1f1",
            tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
            r#type: token_type.as_str(),
            fingerprint: Some("CC2XvyoohnqecEq4r3FtXv6MdCx4TbaW1UUTdCCN5MNL".to_owned()),
            containers: vec!["/pci/high/"],
            expires_at: None,
            detail: Some(detail),
            extras: extras(kind, token_type),
        };
        let mut object = serde_json::from_str(&render(200, &body).body).unwrap_or_default();
        if let Value::Object(object) = &mut object {
            object.insert("data".to_owned(), data);
        }
        object
    })
    .chain(std::iter::once(example_without_data(kind)))
    .collect()
}

/// A token without a mask, for a caller that may see masked data.
fn example_without_data(kind: ResponseKind) -> Value {
    let deduplicated = if let ResponseKind::Created = kind { Some(false) } else { None };
    let extras =
        TokenExtrasBody { deduplicated, data_omitted: Some(NO_MASK), ..TokenExtrasBody::default() };
    let body = TokenResponseBody {
        id: "c06d0789-0a38-40be-b7cc-c28a6f76f1f1",
        tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        r#type: Token.as_str(),
        fingerprint: Some("CC2XvyoohnqecEq4r3FtXv6MdCx4TbaW1UUTdCCN5MNL".to_owned()),
        containers: vec!["/general/high/"],
        expires_at: None,
        detail: Some(detail(Token)),
        extras: Some(extras),
    };
    serde_json::from_str(&render(200, &body).body).unwrap_or_default()
}

fn detail(token_type: TokenType) -> TokenDetailBody<'static> {
    TokenDetailBody {
        mask: token_type.default_mask(),
        card: None,
        network_token: None,
        bank: None,
        metadata: Some(&METADATA),
        search_indexes: Some(&[]),
        fingerprint_expression: Some(token_type.default_fingerprint_expression()),
        expires_at: Some("2031-12-31T00:00:00+00:00".to_owned()),
        created_by: "d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned(),
        created_at: "2026-11-01T09:30:00+00:00".to_owned(),
        modified_by: Some("d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned()),
        modified_at: Some("2026-11-02T10:00:00+00:00".to_owned()),
    }
}

static METADATA: std::sync::LazyLock<std::collections::BTreeMap<String, String>> =
    std::sync::LazyLock::new(|| [("customer".to_owned(), "7".to_owned())].into());

/// The card token is new; the other tokens existed already.
fn extras(kind: ResponseKind, token_type: TokenType) -> Option<TokenExtrasBody> {
    let deduplicated = token_type != Card;
    let behavior = deduplicated.then_some(DeduplicationBehavior::ReadExisting);
    let extras = TokenExtrasBody::with_deduplication(behavior);
    match kind {
        ResponseKind::Created if token_type == Card => Some(TokenExtrasBody {
            dropped_attributes: Some(DroppedAttributesBody {
                names: vec!["cardholder_name"],
                other_count: 1,
            }),
            ..extras
        }),
        ResponseKind::Created => Some(extras),
        ResponseKind::Updated if deduplicated => Some(extras),
        ResponseKind::Updated | ResponseKind::Found => None,
    }
}

/// Contains every attribute of a card.
pub(crate) fn card_example() -> CardDetailsBody<'static> {
    let authentication =
        Some(scrip_core::card::bin_data::AuthenticationRequirement::ScaRequired.as_str());
    CardDetailsBody {
        bin: "42424242",
        last4: "4242",
        expiration_month: Some(12),
        expiration_year: Some(2031),
        brand: Some("visa"),
        funding: Some("debit"),
        authentication,
        issuer_country: Some(CountryBody { alpha2: "FR", name: "France", numeric: "250" }),
        additional: vec![AdditionalBrandBody {
            brand: "cartes-bancaires",
            funding: Some("debit"),
            authentication,
        }],
    }
}

fn insert(value: Value) -> TokenInsert {
    TokenInsert::Data(Plaintext::new(value))
}

#[test]
fn token_data_is_inserted_last_in_each_object() {
    let body = r#"[{"id":"a"},"é",{"b":{"id":"b","metadata":{},"type":"token"}}]"#;
    let span = |token, object: &str| {
        let start = body.find(object).unwrap();
        TokenSpan { write_index: token, start, end: start + object.len() }
    };
    let spans = || {
        let second = r#"{"id":"b","metadata":{},"type":"token"}"#;
        [span(0, r#"{"id":"a"}"#), span(1, second)].into_iter()
    };
    let check = |inserts: [TokenInsert; 2], expected: &str| {
        assert_eq!(insert_token_data(body, spans().zip(inserts)), expected);
    };
    check([TokenInsert::Nothing, TokenInsert::Nothing], body);
    let number = serde_json::json!({"number": "4242"});
    check(
        [insert(number), insert(1.into())],
        r#"[{"id":"a","data":{"number":"4242"}},"é",{"b":{"id":"b","metadata":{},"type":"token","data":1}}]"#,
    );
    check(
        [insert(Value::Null), TokenInsert::Outline],
        r#"[{"id":"a","data":null},"é",{"b":{"id":"b","type":"token"}}]"#,
    );
}
