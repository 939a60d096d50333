//! Tokens that a stranger with a browser's key planted, so that other people's data comes to them.

use std::time::Duration;

use scrip_core::{
    policy::{DeduplicationBehavior, Settings},
    time::Clock,
};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, Keys, SHARED, card, new_number, text},
    intents::conversion_rights::session_of_customer,
};

fn updating() -> Keys {
    SHARED.tenant(Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..Settings::default()
    })
}

/// Which digit is taken, the year says.
const DIGIT: &str =
    "{% assign at = data.expiration_year | minus: 2000 %}{{ data.number | slice: at, 1 }}";

fn planted(id: &str) -> Value {
    json!({"type": "card", "id": id, "fingerprint_expression": DIGIT, "data":
        {"number": "4242424242424242", "expiration_month": 7, "expiration_year": 2007}})
}

#[test]
fn token_under_an_id_that_a_browser_chose_absorbs_no_data_of_others() {
    let keys = updating();
    let body = |number: &str| {
        json!({"type": "card", "data": {"number": number}, "metadata": {"customer": "victim"},
            "fingerprint_expression": "{{ metadata.customer }}"})
    };
    let session = session_of_customer(&keys);
    for (key, id) in [(&session, "cust-7-x"), (&keys.public, "cust-7-y")] {
        let mut planted = body("4242424242424242");
        planted["id"] = json!(id);
        planted["metadata"]["customer"] = json!(id);
        SHARED.created(key, &planted);
        let victim = new_number();
        let mut honest = body(&victim);
        honest["metadata"]["customer"] = json!(id);
        for key in [&keys.public, &keys.private] {
            let made = SHARED.created(key, &honest);
            assert_ne!(made["_extras"]["deduplication_behavior"], "update_existing");
        }
        let read = SHARED.get(&session, id).is(200);
        assert_eq!(read["data"]["number"], "4242424242424242");
    }
    // No client chose an id that the vault drew.
    let mut honest = body(&new_number());
    honest["metadata"]["customer"] = json!("random");
    let first = SHARED.created(&keys.public, &honest);
    let again = SHARED.created(&keys.public, &honest);
    assert_eq!(again["id"], first["id"]);
    assert_eq!(again["_extras"]["deduplication_behavior"], "update_existing");
}

#[test]
fn planted_text_does_not_answer_for_data_with_another_fingerprint_expression() {
    let email = format!("{}@example.com", new_number());
    let planted = json!({"type": "token", "data": email});
    let planted = SHARED.created(&ACME.public, &planted);
    let honest = json!({"type": "token", "data": {"email": email, "iban": "DE89"},
        "fingerprint_expression": "{{ data.email }}", "deduplicate_token": true});
    let made = SHARED.created(&ACME.private, &honest);
    assert_ne!(made["id"], planted["id"]);
    let again = SHARED.created(&ACME.private, &honest);
    assert_eq!(again["id"], made["id"], "the same expression still finds its duplicate");
    let same = json!({"type": "token", "data": email, "deduplicate_token": true});
    assert_eq!(SHARED.created(&ACME.private, &same)["id"], planted["id"]);
}

#[test]
fn expressions_of_a_browser_do_not_meet_the_number_of_another_browser() {
    let id = format!("customer-{}", new_number());
    SHARED.created(&ACME.public, &planted(&id));
    let victim = json!({"data": {"number": new_number(), "expiration_year": 2031}});
    SHARED.patch(&ACME.public, &id, &victim).is(200);
    let fingerprint = |year: i32| {
        let patch = json!({"data": {"expiration_year": year}});
        SHARED.patch(&ACME.public, &id, &patch).is(200)["fingerprint"].clone()
    };
    assert_eq!(fingerprint(2000), fingerprint(2015), "the digits of the number differ");
    let stored = SHARED.get(&ACME.private, &id).json();
    assert_ne!(stored["fingerprint_expression"], DIGIT);
    // What tells nothing about the number stays, and so does what the request repeats.
    let harmless = "{{ data.number }}-{{ data.expiration_year }}";
    let body = json!({"type": "card", "data": {"number": new_number()},
        "fingerprint_expression": harmless, "mask": {"n": "{{ data.number | last4 }}"}});
    let made = SHARED.created(&ACME.public, &body);
    SHARED.patch(&ACME.public, &text(&made, "id"), &victim).is(200);
    let stored = SHARED.get(&ACME.private, &text(&made, "id")).json();
    assert_eq!(stored["fingerprint_expression"], harmless);
    assert_eq!(stored["mask"], body["mask"]);
}

#[test]
fn patch_of_one_expression_does_not_vouch_for_the_planted_others() {
    let id = format!("customer-{}", new_number());
    SHARED.created(&ACME.public, &planted(&id));
    let mask = json!({"mask": {"n": "{{ data.number | last4 }}"}});
    SHARED.patch(&ACME.private, &id, &mask).is(200);
    let patched = SHARED.patch(&ACME.private, &id, &json!({"data": {"number": new_number()}}));
    assert_ne!(patched.is(200)["fingerprint_expression"], DIGIT);
}

#[test]
fn patch_that_leaves_the_number_alone_does_not_ask_whether_the_id_holds_it() {
    let bank = json!({"routing_number": "021000021", "account_number": "12345678"});
    let body = json!({"type": "bank", "data": bank});
    let intent = SHARED.post(&ACME.public, "/token-intents", &body).is(201);
    let id = format!("x-{}-12345678", new_number());
    SHARED.created(&ACME.public, &json!({"token_intent_id": intent["id"], "id": id}));
    let patch = |data: Value| SHARED.patch(&ACME.public, &id, &json!({ "data": data }));
    patch(json!({"routing_number": "011000015"})).is(200);
    patch(json!({"account_number": "12345678"})).invalid("data");
}

#[test]
fn create_without_an_end_does_not_inherit_the_end_of_a_planted_token() {
    let keys = updating();
    let number = new_number();
    let soon = SHARED.clock.now().after(Duration::from_secs(60)).to_string();
    let mut short = card(&number);
    short["expires_at"] = json!(soon);
    let planted = SHARED.created(&keys.public, &short);
    let made = SHARED.created(&keys.private, &card(&number));
    assert_eq!(made["id"], planted["id"]);
    assert!(made.get("expires_at").is_none_or(Value::is_null), "{made}");
}
