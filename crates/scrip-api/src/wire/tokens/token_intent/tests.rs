//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::{
    card::{
        TokenType::{self, Bank, Card, NetworkToken},
        bank::BankDetails,
    },
    token::IntentAuthentication,
};
use serde_json::{Value, json};

use crate::{
    openapi::tests::{assert_examples, assert_limit_usize},
    wire::tokens::{
        token_intent::{AUTHENTICATION_CHARS_MAX, TokenIntentBody},
        token_response::{self, bank_body},
    },
};

#[test]
fn documented_token_intent_examples_match_rendered_bodies() {
    assert_examples("TokenIntent", examples());
    assert_examples("IntentAuthentication", [json!(authentication())]);
}

#[test]
fn documented_authentication_limit_matches_the_code() {
    for schema in ["IntentAuthentication", "NewTokenIntent.authentication"] {
        for attribute in ["threeds_cryptogram", "eci_indicator"] {
            let attribute = format!("{schema}.{attribute}");
            assert_limit_usize(&[&attribute], "maxLength", AUTHENTICATION_CHARS_MAX);
        }
    }
}

/// Together, the examples contain every attribute.
fn examples() -> Vec<Value> {
    let bank_details = BankDetails {
        routing_number: "021000021".to_owned(),
        account_number_last4: Some("6789".to_owned()),
    };
    let authentication = authentication();
    let bodies = [
        TokenIntentBody { card: Some(token_response::tests::card_example()), ..body(Card) },
        TokenIntentBody {
            network_token: Some(token_response::tests::card_example()),
            authentication: Some(&authentication),
            ..body(NetworkToken)
        },
        TokenIntentBody { bank: Some(bank_body(&bank_details)), ..body(Bank) },
    ];
    bodies.iter().map(|it| json!(it)).collect()
}

fn authentication() -> IntentAuthentication {
    IntentAuthentication {
        threeds_cryptogram: Some("AAABBEg0VhI0VniQEjRWAAAAAAA=".to_owned()),
        eci_indicator: Some("05".to_owned()),
    }
}

fn body(token_type: TokenType) -> TokenIntentBody<'static> {
    TokenIntentBody {
        id: "7c5d2b8e-4f10-4c1e-9a57-2e6b8d3f0a94".to_owned(),
        tenant_id: "5f8d1a3e-2b07-4f7e-9d0c-6c1b9f4e2a71".to_owned(),
        r#type: token_type.as_str(),
        card: None,
        network_token: None,
        bank: None,
        authentication: None,
        containers: vec!["/pci/high/"],
        fingerprint: Some("CC2XvyoohnqecEq4r3FtXv6MdCx4TbaW1UUTdCCN5MNL".to_owned()),
        expires_at: "2026-11-16T09:30:00+00:00".to_owned(),
        created_by: "d3c1f0a4-6b7e-4e52-9a1d-8f5b2c7e4a60".to_owned(),
        created_at: "2026-11-15T09:30:00+00:00".to_owned(),
    }
}
