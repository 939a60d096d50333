//! Idempotency keys of callers that many browsers share: public keys and access sessions.

use scrip_core::policy::Settings;
use serde_json::{Value, json};

use crate::harness::server::{Keys, Reply, SHARED, card, new_number, text};

fn create_intent(key: &str, once: &str, body: &Value) -> Reply {
    SHARED.ask("POST", "/token-intents").key(key).once(once).json(body).send()
}

fn intent(number: &str, cvc: &str) -> Value {
    json!({"type": "card", "data": {
        "number": number, "expiration_month": 12, "expiration_year": 2030, "cvc": cvc,
    }})
}

#[test]
fn public_key_replay_needs_an_equal_request() {
    let keys = SHARED.tenant(Settings::default());
    let (theirs, guessed) = (intent(&new_number(), "123"), intent(&new_number(), "123"));
    let first = create_intent(&keys.public, "order-7", &theirs);
    assert_eq!(first.status, 201, "{}", first.text);
    let second = create_intent(&keys.public, "order-7", &guessed);
    assert_eq!(second.status, 422, "{}", second.text);
    let id = text(&first.json(), "id");
    assert!(!second.text.contains(&id) && !second.text.contains("last4"), "{}", second.text);
    let again = create_intent(&keys.public, "order-7", &theirs);
    assert_eq!((again.status, text(&again.json(), "id")), (201, id));
    assert_eq!(SHARED.rows(&keys.tenant, "token_intents"), 1);
}

#[test]
fn public_key_replay_ignores_the_cvc_and_the_order_of_members() {
    let keys = SHARED.tenant(Settings::default());
    let number = new_number();
    let first = create_intent(&keys.public, "order-8", &intent(&number, "123")).is(201);
    let second = create_intent(&keys.public, "order-8", &intent(&number, "999")).is(201);
    assert_eq!(first["id"], second["id"]);
    let body = format!(
        r#"{{"data": {{"expiration_year": 2030, "number": "{number}", "expiration_month": 12}}, "type": "card"}}"#
    );
    let ask = SHARED.ask("POST", "/token-intents").key(&keys.public).once("order-8");
    assert_eq!(ask.text("application/json", &body).send().is(201)["id"], first["id"]);
}

#[test]
fn public_key_replay_needs_the_same_path() {
    let keys = SHARED.tenant(Settings::default());
    let body = intent(&new_number(), "123");
    create_intent(&keys.public, "order-9", &body).is(201);
    let other = SHARED.ask("POST", "/tokens").key(&keys.public).once("order-9").json(&body).send();
    assert_eq!(other.status, 422, "{}", other.text);
    let malformed = SHARED.ask("POST", "/token-intents").key(&keys.public).once("order-9");
    assert_eq!(malformed.text("application/json", "{").send().status, 400);
}

#[test]
fn private_key_replays_whatever_the_second_request_says() {
    let keys = SHARED.tenant(Settings::default());
    let first = create_intent(&keys.private, "order-10", &intent(&new_number(), "123")).is(201);
    let second = create_intent(&keys.private, "order-10", &intent(&new_number(), "123")).is(201);
    assert_eq!(first["id"], second["id"]);
}

fn session(keys: &Keys) -> String {
    let session = SHARED.ask("POST", "/sessions").key(&keys.public).send().is(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["token:create", "token:read"]});
    let reply = SHARED.post(&keys.private, "/sessions/authorize", &body);
    assert_eq!(reply.status, 204, "{}", reply.text);
    text(&session, "session_key")
}

#[test]
fn access_session_replay_needs_an_equal_request_of_the_same_session() {
    let keys = SHARED.tenant(Settings::default());
    let (one, two) = (session(&keys), session(&keys));
    let body = card(&new_number());
    let create = |key: &str, body: &Value| {
        SHARED.ask("POST", "/tokens").key(key).once("order-11").json(body).send()
    };
    let first = create(&one, &body).is(201);
    assert_eq!(create(&one, &body).is(201)["id"], first["id"]);
    assert_eq!(create(&one, &card(&new_number())).status, 422);
    assert_ne!(create(&two, &body).is(201)["id"], first["id"], "another session is another scope");
}
