//! Tokens that a stranger with a browser's key planted, so that other people's data comes to them.

use std::time::Duration;

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    time::Clock,
};
use serde_json::{Value, json};

use crate::{
    harness::server::{
        ACME, SHARED_SERVER, TenantApiKeys, card_body, text_field, unique_card_number,
    },
    intents::conversion_rights::create_customer_session,
};

fn updating_tenant() -> TenantApiKeys {
    SHARED_SERVER.create_test_tenant(TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    })
}

/// Which digit is taken, the year says.
const DIGIT_EXPRESSION: &str =
    "{% assign at = data.expiration_year | minus: 2000 %}{{ data.number | slice: at, 1 }}";

fn planted_card(id: &str) -> Value {
    json!({"type": "card", "id": id, "fingerprint_expression": DIGIT_EXPRESSION, "data":
        {"number": "4242424242424242", "expiration_month": 7, "expiration_year": 2007}})
}

#[test]
fn planted_token_with_chosen_id_does_not_absorb_data_of_others() {
    let keys = updating_tenant();
    let body = |number: &str| {
        json!({"type": "card", "data": {"number": number}, "metadata": {"customer": "victim"},
            "fingerprint_expression": "{{ metadata.customer }}"})
    };
    let session = create_customer_session(&keys);
    for (key, id) in [(&session, "cust-7-x"), (&keys.public, "cust-7-y")] {
        let mut planted = body("4242424242424242");
        planted["id"] = json!(id);
        planted["metadata"]["customer"] = json!(id);
        SHARED_SERVER.create_token_ok(key, &planted);
        let victim = unique_card_number();
        let mut honest = body(&victim);
        honest["metadata"]["customer"] = json!(id);
        for key in [&keys.public, &keys.private] {
            let created = SHARED_SERVER.create_token_ok(key, &honest);
            assert_ne!(created["_extras"]["deduplication_behavior"], "update_existing");
        }
        let read = SHARED_SERVER.get_token(&session, id).expect_status(200);
        assert_eq!(read["data"]["number"], "4242424242424242");
    }
    // No client chose an id that the vault drew.
    let mut honest = body(&unique_card_number());
    honest["metadata"]["customer"] = json!("random");
    let first = SHARED_SERVER.create_token_ok(&keys.public, &honest);
    let again = SHARED_SERVER.create_token_ok(&keys.public, &honest);
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
}

#[test]
fn planted_text_does_not_match_data_with_another_fingerprint_expression() {
    let email = format!("{}@example.com", unique_card_number());
    let planted = json!({"type": "token", "data": email});
    let planted = SHARED_SERVER.create_token_ok(&ACME.public, &planted);
    let honest = json!({"type": "token", "data": {"email": email, "iban": "DE89"},
        "fingerprint_expression": "{{ data.email }}", "deduplicate_token": true});
    let created = SHARED_SERVER.create_token_ok(&ACME.private, &honest);
    assert_ne!(created["id"], planted["id"]);
    let again = SHARED_SERVER.create_token_ok(&ACME.private, &honest);
    assert_eq!(again["id"], created["id"], "the same expression still finds its duplicate");
    let same = json!({"type": "token", "data": email, "deduplicate_token": true});
    assert_eq!(SHARED_SERVER.create_token_ok(&ACME.private, &same)["id"], planted["id"]);
}

#[test]
fn planted_expressions_are_not_evaluated_on_a_later_number() {
    let id = format!("customer-{}", unique_card_number());
    SHARED_SERVER.create_token_ok(&ACME.public, &planted_card(&id));
    let victim = json!({"data": {"number": unique_card_number(), "expiration_year": 2031}});
    SHARED_SERVER.patch_token(&ACME.public, &id, &victim).expect_status(200);
    let fingerprint = |year: i32| {
        let patch = json!({"data": {"expiration_year": year}});
        SHARED_SERVER.patch_token(&ACME.public, &id, &patch).expect_status(200)["fingerprint"]
            .clone()
    };
    assert_eq!(fingerprint(2000), fingerprint(2015), "the digits of the number differ");
    let stored = SHARED_SERVER.get_token(&ACME.private, &id).json();
    assert_ne!(stored["fingerprint_expression"], DIGIT_EXPRESSION);
    // What tells nothing about the number stays, and so does what the request repeats.
    let harmless = "{{ data.number }}-{{ data.expiration_year }}";
    let body = json!({"type": "card", "data": {"number": unique_card_number()},
        "fingerprint_expression": harmless, "mask": {"n": "{{ data.number | last4 }}"}});
    let created = SHARED_SERVER.create_token_ok(&ACME.public, &body);
    SHARED_SERVER
        .patch_token(&ACME.public, &text_field(&created, "id"), &victim)
        .expect_status(200);
    let stored = SHARED_SERVER.get_token(&ACME.private, &text_field(&created, "id")).json();
    assert_eq!(stored["fingerprint_expression"], harmless);
    assert_eq!(stored["mask"], body["mask"]);
}

#[test]
fn patch_of_one_expression_does_not_make_other_planted_expressions_trusted() {
    let id = format!("customer-{}", unique_card_number());
    SHARED_SERVER.create_token_ok(&ACME.public, &planted_card(&id));
    let mask = json!({"mask": {"n": "{{ data.number | last4 }}"}});
    SHARED_SERVER.patch_token(&ACME.private, &id, &mask).expect_status(200);
    let patched = SHARED_SERVER.patch_token(
        &ACME.private,
        &id,
        &json!({"data": {"number": unique_card_number()}}),
    );
    assert_ne!(patched.expect_status(200)["fingerprint_expression"], DIGIT_EXPRESSION);
}

#[test]
fn patch_without_a_number_does_not_check_the_id_for_the_number() {
    let bank = json!({"routing_number": "021000021", "account_number": "12345678"});
    let body = json!({"type": "bank", "data": bank});
    let intent = SHARED_SERVER.post(&ACME.public, "/token-intents", &body).expect_status(201);
    let id = format!("x-{}-12345678", unique_card_number());
    SHARED_SERVER
        .create_token_ok(&ACME.public, &json!({"token_intent_id": intent["id"], "id": id}));
    let patch =
        |data: Value| SHARED_SERVER.patch_token(&ACME.public, &id, &json!({ "data": data }));
    patch(json!({"routing_number": "011000015"})).expect_status(200);
    patch(json!({"account_number": "12345678"})).expect_invalid("data");
}

#[test]
fn create_without_expiry_does_not_inherit_the_expiry_of_a_planted_token() {
    let keys = updating_tenant();
    let number = unique_card_number();
    let soon = SHARED_SERVER.clock.now().plus(Duration::from_secs(60)).to_string();
    let mut short = card_body(&number);
    short["expires_at"] = json!(soon);
    let planted = SHARED_SERVER.create_token_ok(&keys.public, &short);
    let created = SHARED_SERVER.create_token_ok(&keys.private, &card_body(&number));
    assert_eq!(created["id"], planted["id"]);
    assert!(created.get("expires_at").is_none_or(Value::is_null), "{created}");
}
