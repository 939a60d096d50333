//! `BT-ENCRYPTED`: data that a client encrypts for one proxied call.

use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_core::types::{
    Permission::{ProxyInvoke, TokenRead, TokenUse},
    Transform::{Mask, Reveal},
};
use scrip_testing::requests::client_encryption::encrypt_json;
use serde_json::{Value, json};

use super::encrypted_card;
use crate::{
    harness::server::{grant, unique_card_number},
    proxy::harness::PROXY,
};

fn encode(value: &Value) -> String {
    STANDARD.encode(value.to_string())
}

const NUMBER: &str = "{{ encrypted | json: '$.data.number' }}";

#[test]
fn encrypted_header_is_decrypted_for_the_destination_only() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let number = unique_card_number();
    let header = encode(&encrypted_card(&client_key, &number, json!({})));
    let host = PROXY.destinations.host(&[]);
    let body = json!({"pan": NUMBER, "type": "{{ encrypted | json: '$.type' }}",
        "cvc": "{{ encrypted | json: '$.data.cvc' }}"});
    let request = PROXY.post(&host.url("")).header("BT-ENCRYPTED", &header).json(&body);
    request.send().expect_answer(200);
    let sent = host.last_request();
    let sent_body: Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(sent_body, json!({"pan": number, "type": "card", "cvc": "123"}));
    assert!(!sent.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("bt-encrypted")));
}

#[test]
fn encrypted_header_can_name_several_values() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let number = unique_card_number();
    let person =
        json!({"type": "token", "encrypted": encrypt_json(&client_key, &json!({"n": "Ann"}))});
    let header = encode(&json!({
        "card": encrypted_card(&client_key, &number, json!({})), "person": person,
    }));
    let host = PROXY.destinations.host(&[]);
    let body = json!({"pan": "{{ encrypted | json: '$.card.data.number' }}",
        "name": "{{ encrypted | json: '$.person.data.n' }}"});
    let request = PROXY.post(&host.url("")).header("BT-ENCRYPTED", &header).json(&body);
    request.send().expect_answer(200);
    let sent_body: Value = serde_json::from_slice(&host.last_request().body).unwrap();
    assert_eq!(sent_body, json!({"pan": number, "name": "Ann"}));
}

#[test]
fn encrypted_header_needs_token_use_in_the_default_container() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let header = encode(&encrypted_card(&client_key, &unique_card_number(), json!({})));
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let send = |container: &str, permission, is_pre_configured: bool| {
        let key = PROXY.key_with_rule(container, Reveal, &[permission]);
        let request = PROXY.request("POST", "").api_key(&key).header("BT-ENCRYPTED", &header);
        let request = match is_pre_configured {
            true => request.proxy_key(&proxy.key),
            false => request.url(&host.url("")),
        };
        request.json(&json!({"pan": NUMBER})).send()
    };
    send("/other/", TokenUse, false).expect_not_sent(403);
    send("/other/", TokenUse, true).expect_not_sent(403);
    send("/pci/", ProxyInvoke, true).expect_not_sent(403);
    assert_eq!(host.request_count(), 0);
    send("/pci/", TokenUse, false).expect_answer(200);
    send("/pci/", TokenUse, true).expect_answer(200);
    // A client without an API key has no right.
    let open = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    let request = PROXY.post_keyless(&open).header("BT-ENCRYPTED", &header);
    request.json(&json!({})).send().expect_not_sent(403);
}

#[test]
fn malformed_encrypted_header_is_rejected_and_nothing_is_sent() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let host = PROXY.destinations.host(&[]);
    let card = encrypted_card(&client_key, &unique_card_number(), json!({}));
    let mut wrong_type = card.clone();
    wrong_type["type"] = json!("token");
    let mut unknown = client_key.clone();
    unknown["key_id"] = json!("5b493235-6917-4307-906a-2cd6f1a90b13");
    let unknown = encrypted_card(&unknown, &unique_card_number(), json!({}));
    let many: serde_json::Map<_, _> = (0..21).map(|it| (it.to_string(), card.clone())).collect();
    let headers = [
        "e30=".to_owned(),
        "not base64!".to_owned(),
        encode(&json!([])),
        encode(&json!({"type": "card"})),
        encode(&json!({"encrypted": card["encrypted"]})),
        encode(&json!({"type": "card", "encrypted": "x"})),
        encode(&json!({"a": {"type": "nothing", "encrypted": card["encrypted"]}})),
        encode(&wrong_type),
        encode(&unknown),
        encode(&encrypted_card(&client_key, "42", json!({}))),
        encode(&Value::Object(many)),
    ];
    for header in headers {
        let request = PROXY.post(&host.url("")).header("BT-ENCRYPTED", &header);
        request.json(&json!({})).send().expect_not_sent(400);
    }
    // Without the header, the name means a token.
    PROXY.post(&host.url("")).json(&json!({"pan": NUMBER})).send().expect_not_sent(400);
    assert_eq!(host.request_count(), 0);
}

#[test]
fn tokenize_transform_stores_encrypted_data() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let number = unique_card_number();
    let header = encode(&encrypted_card(&client_key, &number, json!({})));
    let host = PROXY.destinations.host(&[]);
    let application = PROXY.create_application(&json!({"permissions": ["token:create"]})).id;
    let id = format!("collected-{number}")
        .replace(&number, &client_key["key_id"].as_str().unwrap()[..8]);
    let transforms = json!([{"type": "tokenize", "options": {"identifier": "card", "token": {
        "id": id, "type": "card", "data": "{{ encrypted | json: '$.data' }}"}}}]);
    let attributes = json!({"request_transforms": transforms, "application": {"id": application}});
    let proxy = PROXY.create_proxy_to(&host, attributes);
    let request = PROXY.post_to(&proxy).header("BT-ENCRYPTED", &header).json(&json!({}));
    request.send().expect_answer(200);
    let token = PROXY.server.get_token(&PROXY.keys.private, &id).expect_status(200);
    assert_eq!(token["data"]["number"], json!(number));
}

/// A sender that may only use cards could store one in a container that it reads in clear.
#[test]
fn collected_encrypted_data_does_not_give_its_sender_more_rights() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let header = encode(&encrypted_card(&client_key, &unique_card_number(), json!({})));
    let host = PROXY.destinations.host(&[]);
    let rule = json!({"description": "all", "priority": 1, "container": "/",
        "transform": "reveal", "permissions": ["token:create", "token:read"]});
    let application = PROXY.create_application(&json!({"rules": [rule]})).id;
    let rules = vec![grant("/pci/", Mask, &[TokenUse]), grant("/open/", Reveal, &[TokenRead])];
    let key = PROXY.server.key_with_rules(&PROXY.keys.tenant, rules);
    let send = |container: &str| {
        let transforms = json!([{"type": "tokenize", "options": {"token": {"type": "card",
            "data": "{{ encrypted | json: '$.data' }}", "containers": [container]}}}]);
        let attributes =
            json!({"request_transforms": transforms, "application": {"id": application}});
        let proxy = PROXY.create_proxy_to(&host, attributes);
        PROXY.post_as(&key, &proxy).header("BT-ENCRYPTED", &header).json(&json!({})).send()
    };
    let error = send("/open/").expect_not_sent(403);
    assert!(error["detail"].as_str().unwrap().contains("sees more"), "{error}");
    assert_eq!(host.request_count(), 0);
    send("/pci/high/").expect_answer(200);
}

#[test]
fn repeated_call_with_the_same_encrypted_data_is_replayed() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let number = unique_card_number();
    let host = PROXY.destinations.host(&[]);
    let key = format!("encrypted-{}", client_key["key_id"].as_str().unwrap());
    let send = |number: &str| {
        let header = encode(&encrypted_card(&client_key, number, json!({})));
        let request = PROXY.post(&host.url("")).header("BT-ENCRYPTED", &header);
        request.idempotency_key(&key).json(&json!({"pan": NUMBER})).send()
    };
    send(&number).expect_answer(200);
    send(&number).expect_answer(200);
    assert_eq!(host.request_count(), 1);
    // The same key for another card.
    assert_eq!(send(&unique_card_number()).status(), 409);
    assert_eq!(host.request_count(), 1);
}

/// A holder of a captured JWE encrypts guesses with the same idempotency key.
#[test]
fn idempotency_key_does_not_compare_encrypted_data_that_the_caller_may_not_read() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let number = unique_card_number();
    let host = PROXY.destinations.host(&[]);
    let key = PROXY.key_with_rule("/", Mask, &[TokenRead, TokenUse]);
    let send = |header: &str| {
        let request = PROXY.post_url_as(&key, &host.url(""));
        let request = request.header("BT-ENCRYPTED", header).idempotency_key("captured");
        request.json(&json!({"pan": NUMBER})).send()
    };
    let encrypt = |number: &str| encode(&encrypted_card(&client_key, number, json!({})));
    let captured = encrypt(&number);
    send(&captured).expect_answer(200);
    for guess in [&number, &unique_card_number()] {
        assert_eq!(send(&encrypt(guess)).status(), 409);
    }
    send(&captured).expect_answer(200);
    assert_eq!(host.request_count(), 1);
}

/// The caller chooses the type, and the rule that data breaks would tell what it contains.
#[test]
fn encrypted_data_that_does_not_fit_its_type_has_one_error_for_callers_that_may_not_read() {
    let client_key = PROXY.server.create_client_key(&PROXY.keys.management);
    let host = PROXY.destinations.host(&[]);
    let key = PROXY.key_with_rule("/", Mask, &[TokenRead, TokenUse]);
    let data = [json!({"number": "1"}), json!({"account_number": "1"}), json!({"other": "1"})];
    let errors = data.map(|data| {
        let encrypted = encrypt_json(&client_key, &data);
        let header = encode(&json!({"type": "card_number", "encrypted": encrypted}));
        let request = PROXY.post_url_as(&key, &host.url(""));
        request.header("BT-ENCRYPTED", &header).json(&json!({})).send().expect_not_sent(400)
    });
    assert_eq!(errors[0], errors[1]);
    assert_eq!(errors[0], errors[2]);
}
