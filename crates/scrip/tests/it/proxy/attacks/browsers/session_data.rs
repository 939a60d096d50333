//! What a proxied call discloses to a session that was authorized before a payer typed, and to the
//! sender of a call whose data a proxy stores.

use scrip_core::types::{
    Permission::{ProxyInvoke, TokenCreate, TokenRead, TokenUpdate, TokenUse},
    Transform::{Mask, Reveal},
};
use scrip_testing::{
    destination::behavior::DestinationBehavior, requests::client_encryption::encrypt_json,
};
use serde_json::{Value, json};

use crate::{
    harness::server::{grant, text_field},
    proxy::{
        attacks::padded_sizes::{create_client_key, encode_header},
        harness::{CreatedProxy, PROXY, ProxyRequest, StatedDelivery},
    },
};

const NUMBER: &str = "5555555555554444";

/// A session that reads and uses all tokens, authorized before a payer types.
fn create_reader_session() -> String {
    create_session(&json!([{"description": "reader", "priority": 1, "transform": "reveal",
        "container": "/", "permissions": ["token:read", "token:use", "token:create"]}]))
}

fn create_session(rules: &Value) -> String {
    PROXY.create_access_session(&json!({"rules": rules}))
}

fn all_rules(transform: &str) -> Value {
    json!({"rules": [{"description": "all", "priority": 1, "container": "/",
        "transform": transform, "permissions": ["token:create", "token:read"]}]})
}

/// Transforms that store a token, and append its id to the message.
fn storing_transforms(token: &Value) -> Value {
    let id = "{{ transform_identifier: 't' | json: '$.id' }}";
    json!([
        {"type": "tokenize", "options": {"identifier": "t", "token": token}},
        {"type": "append_json", "options": {"location": "$.id", "value": id}},
    ])
}

/// A proxy whose destination repeats the request, and which stores a token.
fn create_storing_proxy(list: &str, token: Value) -> CreatedProxy {
    let host = PROXY.destinations.host(&[DestinationBehavior::Echo]);
    let application = PROXY.create_application(&all_rules("reveal")).id;
    let attributes = json!({"application": {"id": application}, list: storing_transforms(&token)});
    PROXY.create_proxy_to(&host, attributes)
}

/// The id of the token that the call stored.
fn stored_id(request: ProxyRequest) -> String {
    let answer: Value = serde_json::from_str(&request.send().expect_answer(200).text()).unwrap();
    text_field(&answer, "id")
}

fn encrypted_card() -> String {
    let client_key = create_client_key(&PROXY);
    let encrypted = encrypt_json(&client_key, &json!({"number": NUMBER, "cvc": "987"}));
    encode_header(&json!({"type": "card", "encrypted": encrypted}))
}

/// The data counts as typed now, so the rights of a session do not matter.
#[test]
fn session_with_a_reveal_right_neither_computes_with_encrypted_data_nor_chooses_its_destination() {
    let session = create_reader_session();
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let header = encrypted_card();
    let body = json!({"n": "{{ encrypted | json: '$.data.number' }}"});
    let to_own_url = |key: &str| {
        PROXY.post_url_as(key, &host.url("")).header("BT-ENCRYPTED", &header).json(&body).send()
    };
    to_own_url(&session).expect_not_sent(403);
    let compute = json!({"n": "{{ encrypted | json: '$.data.cvc' | slice: 0, 1 | to_number }}"});
    let to_proxy = |key: &str, body: &Value| {
        PROXY.post_as(key, &proxy).header("BT-ENCRYPTED", &header).json(body).send()
    };
    to_proxy(&session, &compute).expect_not_sent(403);
    assert_eq!(host.request_count(), 0);
    to_proxy(&session, &body).expect_answer(200);
    to_proxy(&PROXY.keys.private, &compute).expect_answer(200);
    to_own_url(&PROXY.keys.private).expect_answer(200);
}

#[test]
fn repeated_call_of_a_session_does_not_compare_decrypted_data() {
    let session = create_reader_session();
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let body = json!({"n": "{{ encrypted | json: '$.data.number' }}"});
    let call = |key: &str, idempotency_key: &str| {
        let request = PROXY.post_as(key, &proxy).header("BT-ENCRYPTED", &encrypted_card());
        request.idempotency_key(idempotency_key).json(&body).send()
    };
    call(&session, "session-call").expect_answer(200);
    call(&session, "session-call").expect_error(409, StatedDelivery::Answered);
    call(&PROXY.keys.private, "backend-call").expect_answer(200);
    call(&PROXY.keys.private, "backend-call").expect_answer(200);
}

/// The answer repeats a card that is withheld from the session.
#[test]
fn token_from_an_answer_with_a_typed_card_is_withheld_from_the_session() {
    let session = create_reader_session();
    let typed = json!({"type": "card", "data": {"number": NUMBER, "cvc": "987"}});
    let request = PROXY.server.request("POST", "/tokens").key(&PROXY.keys.public);
    let request = request.header("Scrip-Field-Application", &PROXY.keys.public);
    let request = request.header("Scrip-Field-Kinds", "number, code").json(&typed);
    let id = text_field(&request.send().expect_status(201), "id");
    let token = json!({"type": "card", "data": {"number": "{{ res.n }}", "cvc": "{{ res.c }}"}});
    let proxy = create_storing_proxy("response_transforms", token);
    let body = json!({"n": format!("{{{{ {id} | json: '$.number' }}}}"),
        "c": format!("{{{{ {id} | json: '$.cvc' }}}}")});
    let read = |key: &str, id: &str| {
        PROXY.server.get_token(key, id).expect_status(200)["data"].to_string()
    };
    let stored = stored_id(PROXY.post_as(&session, &proxy).json(&body));
    let shown = read(&session, &stored);
    assert!(!shown.contains(NUMBER) && !shown.contains("987"), "{shown}");
    assert!(read(&PROXY.keys.private, &stored).contains(NUMBER));
}

#[test]
fn collected_intent_or_encrypted_data_gives_its_sender_no_right_that_the_sender_does_not_have() {
    let rules = vec![
        grant("/pci/", Mask, &[TokenRead]),
        grant("/x/", Reveal, &[TokenRead, ProxyInvoke, TokenCreate]),
    ];
    let sender = PROXY.server.key_with_rules(&PROXY.keys.tenant, rules);
    let client_key = create_client_key(&PROXY);
    let card = json!({"type": "card", "data": {"number": NUMBER}});
    let intent = || PROXY.server.create_intent_id(&PROXY.keys.public, &card);
    let by_intent = |container: &str| {
        let token = json!({"token_intent_id": "{{ req.intent }}", "containers": [container]});
        create_storing_proxy("request_transforms", token)
    };
    let body = || json!({"intent": intent()});
    PROXY.post_as(&sender, &by_intent("/x/")).json(&body()).send().expect_not_sent(403);
    PROXY.post_as(&sender, &by_intent("/pci/high/")).json(&body()).send().expect_answer(200);
    let by_data = |container: &str| {
        let token =
            json!({"type": "card", "encrypted": "{{ req.enc }}", "containers": [container]});
        create_storing_proxy("request_transforms", token)
    };
    let body = json!({"enc": encrypt_json(&client_key, &card["data"])});
    PROXY.post_as(&sender, &by_data("/x/")).json(&body).send().expect_not_sent(403);
    PROXY.post_as(&sender, &by_data("/pci/high/")).json(&body).send().expect_answer(200);
}

/// A key with masks that may call proxies and change tokens.
fn create_masked_key() -> String {
    PROXY.key_with_rule("/", Mask, &[TokenRead, TokenUpdate, ProxyInvoke])
}

/// The destination repeats a security code as a part of a routing number, whose mask hides nothing.
#[test]
fn token_from_a_hidden_answer_stays_hidden_until_its_whole_data_is_replaced() {
    let key = create_masked_key();
    let id = PROXY.create_token(json!("021"));
    let token = json!({"type": "bank",
        "data": {"routing_number": "{{ res.r }}", "account_number": "123456"}});
    let proxy = create_storing_proxy("response_transforms", token);
    let body = json!({"r": format!("{{{{ {id} }}}}000021")});
    let stored = stored_id(PROXY.post_as(&key, &proxy).json(&body));
    let read = || PROXY.server.get_token(&key, &stored).expect_status(200).to_string();
    assert!(!read().contains("021000021"), "{}", read());
    let patch = json!({"data": {"account_number": "654321"}});
    PROXY.server.patch_token(&key, &stored, &patch).expect_status(200);
    assert!(!read().contains("021000021"), "{}", read());
    // A filter would tell it digit by digit.
    let host = PROXY.destinations.host(&[]);
    let silent = PROXY.create_proxy_to(&host, json!({}));
    let filter = |expression: &str| {
        let body =
            json!({"a": format!("{{{{ {stored} | json: '$.routing_number'{expression} }}}}")});
        PROXY.post_as(&key, &silent).json(&body).send()
    };
    filter(" | slice: 0, 1").expect_not_sent(403);
    filter("").expect_answer(200);
    let patch = json!({"data": {"account_number": "654321", "routing_number": "021000089"}});
    PROXY.server.patch_token(&key, &stored, &patch).expect_status(200);
    assert!(read().contains("021000089"), "{}", read());
    filter(" | slice: 0, 1").expect_answer(200);
}

/// A social security number fits the type, whose mask hides nothing.
#[test]
fn encrypted_routing_number_of_a_call_needs_a_reveal_right_on_social_security_numbers() {
    let key = PROXY.key_with_rule("/bank/low/", Reveal, &[TokenRead, TokenUse]);
    let proxy = PROXY.create_proxy_to(&PROXY.destinations.host(&[]), json!({}));
    let encrypted = encrypt_json(&create_client_key(&PROXY), &json!("021000021"));
    let header = encode_header(&json!({"type": "us_bank_routing_number", "encrypted": encrypted}));
    let call = |key: &str| {
        let request = PROXY.post_as(key, &proxy).header("BT-ENCRYPTED", &header);
        request.json(&json!({"a": "{{ encrypted | json: '$.data' }}"})).send()
    };
    call(&key).expect_not_sent(403);
    call(&PROXY.keys.private).expect_answer(200);
}

/// With a fingerprint, guesses of the type `token` could be compared without a count.
#[test]
fn encrypted_text_that_a_proxy_collects_as_a_token_has_no_fingerprint() {
    let key = PROXY.key_with_rule("/", Mask, &[TokenRead, TokenUse, TokenCreate]);
    let host = PROXY.destinations.host(&[DestinationBehavior::Echo]);
    let transforms = storing_transforms(&json!({"type": "token", "data": "{{ encrypted }}"}));
    let application = PROXY.create_application(&all_rules("mask")).id;
    let attributes = json!({"application": {"id": application}, "request_transforms": transforms});
    let proxy = PROXY.create_proxy_to(&host, attributes);
    let encrypted = encrypt_json(&create_client_key(&PROXY), &json!("123-45-6789"));
    let header = encode_header(&json!({"type": "token", "encrypted": encrypted}));
    let stored =
        stored_id(PROXY.post_as(&key, &proxy).header("BT-ENCRYPTED", &header).json(&json!({})));
    let shown = PROXY.server.get_token(&key, &stored).expect_status(200);
    assert_eq!(shown["fingerprint"], Value::Null, "{shown}");
}

/// A page could read the attribute with another session.
#[test]
fn values_of_hosted_fields_fill_only_the_data_of_collected_tokens_and_are_marked() {
    let key = create_session(&json!([{"description": "page", "priority": 1, "transform": "mask",
        "container": "/", "permissions": ["token:read", "proxy:invoke"]}]));
    let call = |token: Value| {
        let proxy = create_storing_proxy("request_transforms", token);
        let request = PROXY.post_as(&key, &proxy);
        let request = request.header("Scrip-Field-Application", &PROXY.keys.public);
        request.header("Scrip-Field-Kinds", "text").json(&json!({"order": "123456789012"}))
    };
    for (attribute, value) in
        [("metadata", json!({"order": "{{ req.order }}"})), ("id", json!("{{ req.order }}"))]
    {
        let token = json!({"type": "card", "data": {"number": NUMBER}, attribute: value});
        call(token).send().expect_not_sent(403);
    }
    let token = json!({"type": "us_bank_account_number", "data": "{{ req.order }}"});
    let stored = stored_id(call(token));
    let shown = PROXY.server.get_token(&key, &stored).expect_status(200);
    let names: Vec<_> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["containers", "id", "tenant_id", "type"], "{shown}");
}
