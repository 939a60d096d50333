//! What a page with two keys learns: hosted fields write with one of them, and the page reads with the
//! other one.

use std::time::Duration;

use scrip_core::types::{
    ApplicationKind::Public,
    Permission::{TokenCreate, TokenIntentCreate},
};
use scrip_testing::requests::client_encryption::encrypt_json;
use serde_json::{Value, json};

use crate::{
    disclosure::field_marks::{Page, send_kinds},
    harness::server::{SERVER, text_field},
};

const CARD: &str = "4242424242424242";
const TYPED: &str = "5555555555554444";

fn card(number: &str) -> Value {
    json!({"type": "card", "data": {"number": number}})
}

/// A card of a backend, without a security code.
fn saved_card(page: &Page) -> String {
    SERVER.create_token_id(&page.keys.private, &card(CARD))
}

#[test]
fn browser_converts_no_intent_under_an_id_that_it_chooses() {
    let page = Page::new();
    let client_key = SERVER.post(&page.keys.management, "/keys", &json!({})).expect_status(201);
    let session = page.session(&["token:create"], "mask");
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    let intent = || SERVER.post(&page.public, "/token-intents", &card).expect_status(201);
    let encrypted = || encrypt_json(&client_key, &card["data"]);
    for id in ["customer-42", "customer-{{ data.number | last4 }}"] {
        for key in [&page.public, &session] {
            let body = json!({"token_intent_id": intent()["id"], "id": id});
            SERVER.create_token(key, &body).expect_problem(403, "cannot choose id");
            let tokens = json!({"a": body});
            SERVER.post(key, "/tokenize", &tokens).expect_problem(403, "cannot choose id");
            let body = json!({"type": "card", "encrypted": encrypted(), "id": id});
            SERVER.create_token(key, &body).expect_problem(403, "cannot choose id");
        }
    }
    let body = json!({"token_intent_id": intent()["id"], "id": "customer-42"});
    SERVER.create_token(&page.keys.private, &body).expect_status(201);
    let own = json!({"type": "card", "data": card["data"], "id": "customer-43"});
    SERVER.create_token(&page.public, &own).expect_status(201);
}

#[test]
fn browser_converts_only_intents_of_its_own_application() {
    let page = Page::new();
    let permissions = [TokenCreate, TokenIntentCreate];
    let other = SERVER.key_with_permissions(&page.keys.tenant, Public, &permissions);
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    let intent = || SERVER.post(&page.public, "/token-intents", &card).expect_status(201);
    let convert = |key: &str| SERVER.create_token(key, &json!({"token_intent_id": intent()["id"]}));
    convert(&other).expect_problem(403, "of its own application");
    let tokens = json!({"a": {"token_intent_id": intent()["id"]}});
    SERVER.post(&other, "/tokenize", &tokens).expect_problem(403, "of its own application");
    convert(&page.public).expect_status(201);
    convert(&page.session(&["token:create"], "mask")).expect_status(201);
    convert(&page.keys.private).expect_status(201);
}

/// The session key of a page that may read all tokens in clear, and use and change them.
fn reader(page: &Page) -> String {
    let permissions = ["token:read", "token:search", "token:update", "token-intent:read"];
    page.session(&permissions, "reveal")
}

fn read_data(key: &str, id: &str) -> Value {
    SERVER.get_token(key, id).expect_status(200)["data"].clone()
}

#[test]
fn session_reads_no_code_that_a_field_adds_to_its_card() {
    let page = Page::new();
    let (id, other) = (saved_card(&page), saved_card(&page));
    let reader = reader(&page);
    let writer = page.session(&["token:update"], "mask");
    assert_eq!(read_data(&reader, &id)["number"], CARD, "the session shows the saved card");
    let patch = json!({"data": {"cvc": "987"}});
    let path = format!("/tokens/{id}");
    send_kinds(&page, &writer, &path, "code", &patch).expect_status(200);
    let shown = read_data(&reader, &id);
    assert_eq!(shown, json!({"number": "XXXXXXXXXXXX4242"}), "only a mask is shown");
    let query = json!({"query": format!("id:\"{id}\"")});
    let searched = SERVER.post(&reader, "/tokens/search", &query).expect_status(200);
    assert_eq!(searched["data"][0]["data"]["cvc"], Value::Null);
    assert_eq!(searched["data"][0]["data"]["number"], "XXXXXXXXXXXX4242");
    let listed = SERVER.get_path(&reader, "/v2/tokens").expect_status(200);
    assert!(!listed.to_string().contains("987"), "{listed}");
    let expression = json!({"a": format!("{{{{ {id} | json: '$.cvc' }}}}")});
    let detokenized = SERVER.post(&reader, "/detokenize", &expression);
    assert_eq!(detokenized.expect_status(200)["a"], Value::Null);
    for (name, expression) in [
        ("search_indexes", json!(["{{ data.number }}"])),
        ("fingerprint_expression", json!("{{ data.number | slice: 6, 1 }}")),
    ] {
        let patch = json!({ name: expression });
        SERVER.patch_token(&reader, &id, &patch).expect_problem(403, "hosted field");
    }
    assert_eq!(read_data(&reader, &other)["number"], CARD, "other cards are shown");
    assert_eq!(read_data(&page.keys.private, &id)["cvc"], "987", "a backend reads the code");
    SERVER.clock.advance(Duration::from_millis(2));
    let later = read_data(&page.session(&["token:read"], "reveal"), &id);
    assert_eq!(later["cvc"], "987", "the backend authorized this session after the write");
}

#[test]
fn session_reads_no_number_that_a_field_writes_with_another_key() {
    let page = Page::new();
    let reader = reader(&page);
    let writer = page.session(&["token:create", "token:update"], "mask");
    let id = saved_card(&page);
    let patch = json!({"data": {"number": TYPED}});
    send_kinds(&page, &writer, &format!("/tokens/{id}"), "number", &patch).expect_status(200);
    let text = json!({"type": "token", "data": "secret"});
    let client_key = SERVER.post(&page.keys.management, "/keys", &json!({})).expect_status(201);
    let encrypted = encrypt_json(&client_key, &card(TYPED)["data"]);
    let encrypted = json!({"type": "card", "encrypted": encrypted});
    let create = |key: &str, kinds: &str, body: &Value| {
        text_field(&send_kinds(&page, key, "/tokens", kinds, body).expect_status(201), "id")
    };
    let tokens = json!({"a": card(TYPED)});
    let tokenized = send_kinds(&page, &page.public, "/tokenize", "number", &tokens);
    let ids = [
        id,
        create(&page.public, "number", &card(TYPED)),
        create(&writer, "number", &card(TYPED)),
        create(&page.public, "text", &text),
        create(&page.public, "none", &encrypted),
        text_field(&tokenized.expect_status(200)["a"], "id"),
    ];
    for id in ids {
        let shown = SERVER.get_token(&reader, &id).expect_status(200).to_string();
        assert!(!shown.contains(TYPED) && !shown.contains("secret"), "{shown}");
    }
    let own = create(&page.public, "none", &card(TYPED));
    assert_eq!(read_data(&reader, &own)["number"], TYPED, "the page sent this number itself");
}

#[test]
fn session_reads_no_intent_of_a_field_and_no_token_of_it() {
    let page = Page::new();
    let reader = reader(&page);
    let body = json!({"type": "card", "data": {"number": TYPED, "cvc": "987"}});
    let intent = |kinds: &str| {
        let created = send_kinds(&page, &page.public, "/token-intents", kinds, &body);
        text_field(&created.expect_status(201), "id")
    };
    let detokenize = |key: &str, id: &str| {
        let expression = json!({"a": format!("{{{{ token_intent: {id} | json: '$.data' }}}}")});
        SERVER.post(key, "/detokenize", &expression).expect_status(200).to_string()
    };
    let typed = intent("number, code");
    let shown = detokenize(&reader, &typed);
    assert!(!shown.contains(TYPED) && !shown.contains("987"), "{shown}");
    assert!(detokenize(&reader, &intent("none")).contains(TYPED), "the page knows its own data");
    for key in [&page.public, &page.keys.private] {
        let convert = json!({"token_intent_id": intent("number, code")});
        let id = SERVER.create_token_id(key, &convert);
        assert_eq!(read_data(&reader, &id)["number"], "XXXXXXXXXXXX4444");
        SERVER.clock.advance(Duration::from_millis(2));
        let later = read_data(&page.session(&["token:read"], "reveal"), &id);
        assert_eq!(later["number"], TYPED, "the backend authorized this session later");
    }
}

#[test]
fn session_converts_no_intent_of_a_field_with_expressions_of_its_own() {
    let page = Page::new();
    let session = page.session(&["token:read", "token:search", "token:create"], "reveal");
    let intent = |kinds: &str| {
        let created = send_kinds(&page, &page.public, "/token-intents", kinds, &card(TYPED));
        text_field(&created.expect_status(201), "id")
    };
    let convert = |key: &str, kinds: &str, name: &str, expression: &Value| {
        SERVER.create_token(key, &json!({"token_intent_id": intent(kinds), name: expression}))
    };
    for (name, expression) in [
        ("search_indexes", json!(["{{ data.number | slice: 8, 1 }}"])),
        ("fingerprint_expression", json!("{{ data.number | slice: 8, 3 }}")),
        ("mask", json!({"number": "{{ data.number }}"})),
    ] {
        convert(&session, "number", name, &expression).expect_problem(403, name);
        convert(&session, "none", name, &expression).expect_status(201);
        SERVER.clock.advance(Duration::from_millis(2));
    }
}

#[test]
fn session_sends_no_code_of_a_field_to_a_destination_of_its_own() {
    let page = Page::new();
    let (id, other) = (saved_card(&page), saved_card(&page));
    let sender = page.session(&["token:use"], "reveal");
    let patch = json!({"data": {"cvc": "987"}});
    let path = format!("/tokens/{id}");
    send_kinds(&page, &page.public, &path, "code", &patch).expect_status(200);
    let send = |id: &str| {
        let request = SERVER.request("POST", "/proxy").key(&sender);
        let request = request.header("BT-PROXY-URL", "https://destination.invalid/");
        request.json(&json!({"code": format!("{{{{ {id} | json: '$.number' }}}}")})).send()
    };
    let denied = send(&id);
    assert_eq!(denied.status, 403, "{}", denied.json());
    assert_ne!(send(&other).status, 403, "the session uses other cards");
}
