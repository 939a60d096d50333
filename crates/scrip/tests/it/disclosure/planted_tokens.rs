//! An attacker plants tokens with a public key in order to receive the data of other people.

use std::time::Duration;

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{ApplicationKind::Private, Permission::TokenCreate, time::Clock},
};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, TenantApiKeys, card_body, text_field, unique_card_number},
    tokens::intents::conversion_rights::create_customer_session,
};

fn create_updating_tenant() -> TenantApiKeys {
    SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    })
}

/// Evaluates to the digit of the number at the position that the year selects.
const DIGIT_EXPRESSION: &str = "{% assign position = data.expiration_year | minus: 2000 %}\
     {{ data.number | slice: position, 1 }}";

fn planted_card_body(id: &str) -> Value {
    json!({"type": "card", "id": id, "fingerprint_expression": DIGIT_EXPRESSION, "data":
        {"number": "4242424242424242", "expiration_month": 7, "expiration_year": 2007}})
}

#[test]
fn planted_token_with_chosen_id_does_not_absorb_data_of_others() {
    let keys = create_updating_tenant();
    let build_body = |number: &str| {
        json!({"type": "card", "data": {"number": number}, "metadata": {"customer": "victim"},
            "fingerprint_expression": "{{ metadata.customer }}"})
    };
    let session_key = create_customer_session(&keys);
    for (key, id) in [(&session_key, "cust-7-x"), (&keys.public, "cust-7-y")] {
        let mut planted_body = build_body("4242424242424242");
        planted_body["id"] = json!(id);
        planted_body["metadata"]["customer"] = json!(id);
        SERVER.create_token_ok(key, &planted_body);
        let victim_number = unique_card_number();
        let mut honest_body = build_body(&victim_number);
        honest_body["metadata"]["customer"] = json!(id);
        for key in [&keys.public, &keys.private] {
            let created = SERVER.create_token_ok(key, &honest_body);
            assert_ne!(created["_extras"]["deduplication_behavior"], "update_existing");
        }
        let planted_token = SERVER.get_token(&session_key, id).expect_status(200);
        assert_eq!(planted_token["data"]["number"], "4242424242424242");
    }
    // The vault generated this id, so an attacker cannot have chosen it.
    let mut honest_body = build_body(&unique_card_number());
    honest_body["metadata"]["customer"] = json!("random");
    let original = SERVER.create_token_ok(&keys.public, &honest_body);
    let duplicate = SERVER.create_token_ok(&keys.public, &honest_body);
    assert_eq!(duplicate["id"], original["id"]);
    assert_eq!(duplicate["_extras"]["deduplication_behavior"], "update_existing");
}

#[test]
fn planted_text_does_not_match_data_with_another_fingerprint_expression() {
    let email = format!("{}@example.com", unique_card_number());
    let planted = SERVER.create_token_ok(&ACME.public, &json!({"type": "token", "data": email}));
    let honest_body = json!({"type": "token", "data": {"email": email, "iban": "DE89"},
        "fingerprint_expression": "{{ data.email }}", "deduplicate_token": true});
    let created = SERVER.create_token_ok(&ACME.private, &honest_body);
    assert_ne!(created["id"], planted["id"]);
    let duplicate = SERVER.create_token_ok(&ACME.private, &honest_body);
    assert_eq!(duplicate["id"], created["id"], "an equal expression must find the duplicate");
    let planted_text_body = json!({"type": "token", "data": email, "deduplicate_token": true});
    assert_eq!(SERVER.create_token_ok(&ACME.private, &planted_text_body)["id"], planted["id"]);
}

#[test]
fn planted_expressions_are_not_evaluated_on_a_later_number() {
    let id = format!("customer-{}", unique_card_number());
    SERVER.create_token_ok(&ACME.public, &planted_card_body(&id));
    let victim_patch = json!({"data": {"number": unique_card_number(), "expiration_year": 2031}});
    SERVER.patch_token(&ACME.public, &id, &victim_patch).expect_status(200);
    let patch_year = |year: i32| {
        let patch = json!({"data": {"expiration_year": year}});
        SERVER.patch_token(&ACME.public, &id, &patch).expect_status(200)["fingerprint"].clone()
    };
    let fingerprints = [2000, 2015].map(patch_year);
    assert_eq!(fingerprints[0], fingerprints[1], "the planted expression read the new number");
    let stored = SERVER.get_token(&ACME.private, &id).json();
    assert_ne!(stored["fingerprint_expression"], DIGIT_EXPRESSION);
    // A mask of the last four digits discloses no hidden digits, so it is not replaced. Literal text
    // next to the number would give each guess another fingerprint.
    let planted_expression = "7{{ data.number }}";
    let body = json!({"type": "card", "data": {"number": unique_card_number()},
        "fingerprint_expression": planted_expression, "mask": {"n": "{{ data.number | last4 }}"}});
    let created = SERVER.create_token_ok(&ACME.public, &body);
    SERVER.patch_token(&ACME.public, &text_field(&created, "id"), &victim_patch).expect_status(200);
    let stored = SERVER.get_token(&ACME.private, &text_field(&created, "id")).json();
    assert_eq!(stored["fingerprint_expression"], "{{ data.number }}");
    assert_eq!(stored["mask"], body["mask"]);
}

#[test]
fn patch_of_one_expression_does_not_make_other_planted_expressions_trusted() {
    let id = format!("customer-{}", unique_card_number());
    SERVER.create_token_ok(&ACME.public, &planted_card_body(&id));
    let mask = json!({"mask": {"n": "{{ data.number | last4 }}"}});
    SERVER.patch_token(&ACME.private, &id, &mask).expect_status(200);
    let patched =
        SERVER.patch_token(&ACME.private, &id, &json!({"data": {"number": unique_card_number()}}));
    assert_ne!(patched.expect_status(200)["fingerprint_expression"], DIGIT_EXPRESSION);
}

#[test]
fn patch_without_a_number_does_not_check_the_id_for_the_number() {
    let bank_data = json!({"routing_number": "021000021", "account_number": "12345678"});
    let intent_body = json!({"type": "bank", "data": bank_data});
    let intent = SERVER.post(&ACME.public, "/token-intents", &intent_body).expect_status(201);
    let id = format!("x-{}-12345678", unique_card_number());
    // A browser chooses no id for an intent.
    let backend = SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenCreate]);
    SERVER.create_token_ok(&backend, &json!({"token_intent_id": intent["id"], "id": id}));
    let patch_data = |data: Value| SERVER.patch_token(&ACME.public, &id, &json!({ "data": data }));
    patch_data(json!({"routing_number": "011000015"})).expect_status(200);
    patch_data(json!({"account_number": "12345678"})).expect_invalid("data");
}

#[test]
fn create_without_expiry_does_not_inherit_the_expiry_of_a_planted_token() {
    let keys = create_updating_tenant();
    let number = unique_card_number();
    let expires_at = SERVER.clock.now().plus(Duration::from_secs(60)).to_string();
    let mut planted_body = card_body(&number);
    planted_body["expires_at"] = json!(expires_at);
    let planted = SERVER.create_token_ok(&keys.public, &planted_body);
    let created = SERVER.create_token_ok(&keys.private, &card_body(&number));
    assert_eq!(created["id"], planted["id"]);
    assert!(created.get("expires_at").is_none_or(Value::is_null), "{created}");
}
