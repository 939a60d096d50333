//! Token intents, described.

use scrip_core::{
    audit::Operation,
    bank::BankDetails,
    token_intent::IntentAuthentication,
    token_type::TokenType::{self, Bank, Card, NetworkToken},
};
use serde_json::{Value, json};

use crate::wire::{
    described::{Description, Parameter, Tag, operation, parameter},
    policy::access::described::container,
    schema::{
        Schema, always, answer, any, instant, list, named, nothing, request, sometimes, text, uuid,
    },
    tokens::{
        card,
        token::{
            bank,
            described::{data::data_by_type, fingerprint, token_type},
        },
        token_intent::{AUTHENTICATION_CHARS_MAX, TokenIntentBody},
    },
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let intent = answer([
        always("id", uuid()),
        always("tenant_id", uuid()),
        always("type", token_type()),
        sometimes("card", named("CardDetails")),
        sometimes("network_token", named("CardDetails")),
        sometimes("bank", named("BankDetails")),
        sometimes("authentication", named("IntentAuthentication")),
        sometimes("fingerprint", fingerprint()),
        always("containers", list(container()).with("minItems", 1)),
        always("expires_at", instant().about("Until then it can become a token.")),
        always("created_by", uuid()),
        always("created_at", instant()),
    ]);
    let proof = answer([
        sometimes("threeds_cryptogram", proof_text()),
        sometimes("eci_indicator", proof_text()),
    ]);
    vec![
        ("TokenIntent", intent.examples(examples())),
        ("IntentAuthentication", proof.examples([json!(authentication())])),
        ("NewTokenIntent", new_intent()),
    ]
}

fn proof_text() -> Schema {
    text().with("maxLength", AUTHENTICATION_CHARS_MAX)
}

fn new_intent() -> Schema {
    let proof = || {
        let known = [
            sometimes("threeds_cryptogram", proof_text()),
            sometimes("eci_indicator", proof_text()),
        ];
        request(known).with("additionalProperties", proof_text().or_null().into_value())
    };
    let branches = data_by_type(|it| {
        let proof = if it == NetworkToken { proof() } else { nothing() };
        sometimes("authentication", proof)
    });
    let data = any().about("Of the form that the type asks for. No answer ever shows it.");
    let about = "What proves that the holder of a network token was asked. Only with one.";
    let example = json!({
        "type": "card",
        "data": {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2031, "cvc": "123"},
    });
    let attributes = [
        always("type", token_type()),
        always("data", data),
        sometimes(
            "containers",
            list(container()).sized(1, 16).about(
                "Where every use of the intent is decided. By default the container of the \
                 first access rule that lets the caller create intents, else the type's.",
            ),
        ),
        sometimes("authentication", proof().about(about)),
    ];
    request(attributes).with("oneOf", branches).examples([example])
}

/// Between them they have every attribute that there is.
fn examples() -> Vec<Value> {
    let of_bank = BankDetails {
        routing_number: "021000021".to_owned(),
        account_number_last4: Some("6789".to_owned()),
    };
    let authentication = authentication();
    let bodies = [
        TokenIntentBody { card: Some(card::described::example()), ..body(Card) },
        TokenIntentBody {
            network_token: Some(card::described::example()),
            authentication: Some(&authentication),
            ..body(NetworkToken)
        },
        TokenIntentBody { bank: Some(bank(&of_bank)), ..body(Bank) },
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

fn id() -> Parameter {
    parameter("id", uuid(), "The token intent.")
}

pub(crate) fn create() -> Description {
    operation(Tag::TokenIntents, "Create a token intent")
        .about(
            "Checked as a token would be. It waits for as long as the quota \
             `token_intent_retention` says, and is gone then, or when it has become a token.",
        )
        .body(named("NewTokenIntent"))
        .answer(201, "The intent, without its data.", named("TokenIntent"))
        .leads_to(
            &[Operation::GetTokenIntent, Operation::DeleteTokenIntent],
            &[("id", "$response.body#/id")],
        )
}

pub(crate) fn get() -> Description {
    operation(Tag::TokenIntents, "Get a token intent").path(id()).answer(
        200,
        "The intent, without its data.",
        named("TokenIntent"),
    )
}

pub(crate) fn delete() -> Description {
    operation(Tag::TokenIntents, "Delete a token intent").path(id()).done("It is gone.")
}
