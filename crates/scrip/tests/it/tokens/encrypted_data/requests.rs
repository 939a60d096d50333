//! `encrypted` in place of `data`.

use scrip_core::types::{ApplicationKind::Public, Permission::TokenCreate, time::Clock};
use scrip_testing::requests::client_encryption::{encrypt, encrypt_json};
use serde_json::{Value, json};

use super::{card_data, create_keys, delete_client_key, encrypted_card, post_card};
use crate::harness::server::{SERVER, text_field, unique_card_number};

#[test]
fn encrypted_card_is_stored_like_a_card_in_clear() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let (number, created) = post_card(&keys.private, &client_key, json!({"metadata": {"a": "b"}}));
    let created = created.expect_status(201);
    assert_eq!(created["containers"], json!(["/pci/high/"]));
    let token = SERVER.get_token(&keys.private, &text_field(&created, "id"));
    let token = token.expect_status(200);
    assert_eq!(token["data"]["number"], json!(number));
    assert_eq!(token["data"]["cvc"], "123");
    assert_eq!(token["metadata"], json!({"a": "b"}));
    // The same fingerprint as the card in clear.
    let clear = json!({"type": "card", "data": card_data(&number)});
    let clear = SERVER.create_token_ok(&keys.private, &clear);
    assert_eq!(clear["fingerprint"], token["fingerprint"]);
}

#[test]
fn response_does_not_describe_dropped_attributes_of_encrypted_data() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let data = json!({"number": unique_card_number(), "cardholder_name": "Jo", "x": 1});
    let body = json!({"type": "card", "encrypted": encrypt_json(&client_key, &data)});
    for key in [&keys.private, &keys.public] {
        let created = SERVER.create_token_ok(key, &body);
        assert_eq!(created["_extras"], json!({"deduplicated": false}));
    }
}

#[test]
fn response_shows_the_data_only_to_a_caller_that_may_read_it() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let writer = SERVER.key_with_permissions(&keys.tenant, Public, &[TokenCreate]);
    let (number, created) = post_card(&writer, &client_key, json!({}));
    let text = created.expect_status(201).to_string();
    assert!(!text.contains(&number) && !text.contains("cvc"), "{text}");
}

#[test]
fn encrypted_intent_is_converted_like_any_intent() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let number = unique_card_number();
    let body = encrypted_card(&client_key, &number, json!({}));
    let intent = SERVER.post(&keys.public, "/token-intents", &body).expect_status(201);
    assert_eq!(intent["card"], Value::Null, "a browser does not see encrypted data");
    let body = json!({"token_intent_id": intent["id"]});
    let token = SERVER.create_token_ok(&keys.private, &body);
    let token = SERVER.get_token(&keys.private, &text_field(&token, "id")).json();
    assert_eq!(token["data"]["number"], json!(number));
}

#[test]
fn tokenize_accepts_encrypted_leaves_or_stores_nothing() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let number = unique_card_number();
    let card = encrypted_card(&client_key, &number, json!({}));
    let pin = json!({"type": "token", "encrypted": encrypt_json(&client_key, &json!({"pin": 7}))});
    let body = json!({"card": card, "list": [pin, "text"]});
    let written = SERVER.post(&keys.private, "/tokenize", &body).expect_status(200);
    let card_id = text_field(&written["card"], "id");
    let token = SERVER.get_token(&keys.private, &card_id).json();
    assert_eq!(token["data"]["number"], json!(number));
    let pin_id = text_field(&written["list"][0], "id");
    let token = SERVER.get_token(&keys.private, &pin_id).json();
    assert_eq!(token["data"], json!({"pin": 7}));

    let count = || SERVER.count_rows(&keys.tenant, "tokens");
    let before = count();
    let invalid = json!({"a": card, "b": {"type": "card", "encrypted": "x"}});
    let response = SERVER.post(&keys.private, "/tokenize", &invalid);
    response.expect_invalid("b.encrypted");
    let mut unknown = client_key.clone();
    unknown["key_id"] = json!("5b493235-6917-4307-906a-2cd6f1a90b13");
    let invalid = json!({"a": card, "b": encrypted_card(&unknown, &number, json!({}))});
    SERVER.post(&keys.private, "/tokenize", &invalid).expect_invalid("b.encrypted");
    assert_eq!(count(), before);
}

/// The error of a JWE for a key of this id.
fn error_for(api_key: &str, client_key: &Value) -> Value {
    let (_, response) = post_card(api_key, client_key, json!({}));
    response.expect_invalid("encrypted");
    response.without_trace()
}

#[test]
fn unknown_deleted_expired_and_foreign_keys_are_indistinguishable() {
    let (keys, stranger) = (create_keys(), create_keys());
    let deleted = SERVER.create_client_key(&keys.management);
    delete_client_key(&keys, &deleted);
    let foreign = SERVER.create_client_key(&stranger.management);
    let expires_at = SERVER.clock.now().plus(std::time::Duration::from_secs(2));
    let body = json!({"expires_at": expires_at.to_string()});
    let expired = SERVER.post(&keys.management, "/keys", &body).expect_status(201);
    let mut unknown = foreign.clone();
    unknown["key_id"] = json!("5b493235-6917-4307-906a-2cd6f1a90b13");
    let mut no_id = foreign.clone();
    no_id["key_id"] = json!("not an id");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let expected = error_for(&keys.private, &unknown);
    let rule = "is encrypted for a key that is unknown or expired";
    assert_eq!(expected["errors"], json!({"encrypted": [rule]}));
    for client_key in [&deleted, &foreign, &expired, &no_id] {
        assert_eq!(error_for(&keys.private, client_key), expected);
    }
    error_for(&keys.public, &deleted);
}

#[test]
fn malformed_jwe_is_a_400_without_any_part_of_the_input() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let other = SERVER.create_client_key(&keys.management);
    let valid = encrypt_json(&client_key, &card_data(&unique_card_number()));
    let [pem, key_id] = ["public_key_pem", "key_id"].map(|it| text_field(&client_key, it));
    let texts = [
        String::new(),
        "eyJhbGciOi".to_owned(),
        valid.replace("..", ".AAAA."),
        format!("{valid}A"),
        format!("{valid}.x"),
        // Encrypted for another key.
        encrypt(&text_field(&other, "public_key_pem"), &key_id, b"{}"),
        encrypt(&pem, &key_id, b""),
        encrypt(&pem, &key_id, b"{"),
        encrypt(&pem, &key_id, b"null"),
        encrypt(&pem, &key_id, b"{\"number\":\"1\",\"number\":\"2\"}"),
        encrypt(&pem, &key_id, b"\xff"),
        encrypt(&pem, &key_id, &b"[".repeat(33)),
        encrypt(&pem, &key_id, format!("\"{}\"", "x".repeat(65_536)).as_bytes()),
    ];
    for text in texts {
        for path in ["/tokens", "/token-intents"] {
            let body = json!({"type": "token", "encrypted": text});
            let response = SERVER.post(&keys.private, path, &body);
            response.expect_invalid("encrypted");
            assert!(!response.text.contains("4242") && !response.text.contains("eyJ"), "{path}");
        }
    }
    for body in [
        json!({"type": "card", "encrypted": 7}),
        json!({"type": "card", "encrypted": valid, "data": {"number": "4242424242424242"}}),
    ] {
        SERVER.create_token(&keys.private, &body).expect_invalid("encrypted");
    }
    for (body, attribute) in [
        (json!({"type": "card"}), "data"),
        (json!({"encrypted": valid}), "type"),
        (json!({"token_intent_id": "x", "encrypted": valid}), "token_intent_id"),
    ] {
        SERVER.create_token(&keys.private, &body).expect_invalid(attribute);
    }
    let token = SERVER.create_token_ok(&keys.private, &json!({"type": "token", "data": 1}));
    let patch = json!({"encrypted": valid});
    let response = SERVER.patch_token(&keys.private, &text_field(&token, "id"), &patch);
    response.expect_invalid("encrypted");
}

#[test]
fn replay_for_a_browser_compares_encrypted_data_as_it_was_sent() {
    let keys = create_keys();
    let client_key = SERVER.create_client_key(&keys.management);
    let number = unique_card_number();
    let encrypt = |number: &str| encrypted_card(&client_key, number, json!({}));
    let create = |body: &Value| SERVER.post_once(&keys.public, "/tokens", "browser-key", body);
    let captured = encrypt(&number);
    let first = create(&captured).expect_status(201);
    assert_eq!(create(&captured).expect_status(201)["id"], first["id"]);
    // A guess must not be confirmed: the same card, encrypted again, and another one.
    for guess in [&number, &unique_card_number()] {
        assert_eq!(create(&encrypt(guess)).status, 422);
    }
}
