//! Idempotency keys of callers that many browsers share: public keys and access sessions.

use serde_json::{Value, json};

use crate::harness::server::{
    SERVER, TenantApiKeys, TestResponse, card_body, text_field, unique_card_number,
};

fn create_intent(key: &str, idempotency_key: &str, body: &Value) -> TestResponse {
    SERVER.post_once(key, "/token-intents", idempotency_key, body)
}

fn intent_body(number: &str, cvc: &str) -> Value {
    json!({"type": "card", "data": {
        "number": number, "expiration_month": 12, "expiration_year": 2030, "cvc": cvc,
    }})
}

#[test]
fn public_key_replay_needs_an_equal_request() {
    let keys = SERVER.create_default_tenant();
    let (victim_body, guessed_body) =
        (intent_body(&unique_card_number(), "123"), intent_body(&unique_card_number(), "123"));
    let first = create_intent(&keys.public, "order-7", &victim_body);
    assert_eq!(first.status, 201, "{}", first.text);
    let attacker_response = create_intent(&keys.public, "order-7", &guessed_body);
    assert_eq!(attacker_response.status, 422, "{}", attacker_response.text);
    let id = text_field(&first.json(), "id");
    assert!(
        !attacker_response.text.contains(&id) && !attacker_response.text.contains("last4"),
        "{}",
        attacker_response.text
    );
    let victim_response = create_intent(&keys.public, "order-7", &victim_body);
    assert_eq!((victim_response.status, text_field(&victim_response.json(), "id")), (201, id));
    assert_eq!(SERVER.count_rows(&keys.tenant, "token_intents"), 1);
}

#[test]
fn public_key_replay_ignores_the_cvc_and_the_order_of_members() {
    let keys = SERVER.create_default_tenant();
    let number = unique_card_number();
    let first =
        create_intent(&keys.public, "order-8", &intent_body(&number, "123")).expect_status(201);
    let second_response =
        create_intent(&keys.public, "order-8", &intent_body(&number, "999")).expect_status(201);
    assert_eq!(first["id"], second_response["id"]);
    let body = format!(
        r#"{{"data": {{"expiration_year": 2030, "number": "{number}", "expiration_month": 12}}, "type": "card"}}"#
    );
    let request =
        SERVER.request("POST", "/token-intents").key(&keys.public).idempotency_key("order-8");
    let replayed = request.body("application/json", &body).send().expect_status(201);
    assert_eq!(replayed["id"], first["id"]);
}

#[test]
fn public_key_replay_needs_the_same_path() {
    let keys = SERVER.create_default_tenant();
    let body = intent_body(&unique_card_number(), "123");
    create_intent(&keys.public, "order-9", &body).expect_status(201);
    let other_response = SERVER.post_once(&keys.public, "/tokens", "order-9", &body);
    assert_eq!(other_response.status, 422, "{}", other_response.text);
    let malformed_request =
        SERVER.request("POST", "/token-intents").key(&keys.public).idempotency_key("order-9");
    assert_eq!(malformed_request.body("application/json", "{").send().status, 400);
}

#[test]
fn private_key_replay_ignores_the_second_request_body() {
    let keys = SERVER.create_default_tenant();
    let first =
        create_intent(&keys.private, "order-10", &intent_body(&unique_card_number(), "123"))
            .expect_status(201);
    let second_response =
        create_intent(&keys.private, "order-10", &intent_body(&unique_card_number(), "123"))
            .expect_status(201);
    assert_eq!(first["id"], second_response["id"]);
}

fn create_session(keys: &TenantApiKeys) -> String {
    let session = SERVER.post_empty(&keys.public, "/sessions").expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["token:create", "token:read"]});
    let response = SERVER.post(&keys.private, "/sessions/authorize", &body);
    assert_eq!(response.status, 204, "{}", response.text);
    text_field(&session, "session_key")
}

#[test]
fn access_session_replay_needs_an_equal_request_of_the_same_session() {
    let keys = SERVER.create_default_tenant();
    let (first_key, second_key) = (create_session(&keys), create_session(&keys));
    let body = card_body(&unique_card_number());
    let create_with_key =
        |key: &str, body: &Value| SERVER.post_once(key, "/tokens", "order-11", body);
    let first = create_with_key(&first_key, &body).expect_status(201);
    assert_eq!(create_with_key(&first_key, &body).expect_status(201)["id"], first["id"]);
    assert_eq!(create_with_key(&first_key, &card_body(&unique_card_number())).status, 422);
    let other_session = create_with_key(&second_key, &body).expect_status(201);
    assert_ne!(other_session["id"], first["id"], "two sessions share an idempotency key");
    let public = create_with_key(&keys.public, &body).expect_status(201);
    assert_ne!(public["id"], first["id"], "a session shares the key of its application");
}
