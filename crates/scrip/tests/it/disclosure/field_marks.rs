//! Marked tokens and intents: they hold the text of a hosted field, or data that a browser encrypted.
//! The page that sends them learns nothing about the data.

use scrip_core::types::{
    ApplicationKind::Public,
    Permission::{
        TokenCreate, TokenIntentCreate, TokenIntentRead, TokenRead, TokenSearch, TokenUpdate,
    },
};
use scrip_testing::requests::client_encryption::encrypt_json;
use serde_json::{Value, json};

use crate::harness::server::{SERVER, TenantApiKeys, TestResponse, text_field};

pub(super) struct Page {
    pub(super) keys: TenantApiKeys,
    pub(super) public: String,
}

impl Page {
    pub(super) fn new() -> Self {
        let keys = SERVER.create_default_tenant();
        let permissions = [TokenCreate, TokenUpdate, TokenIntentCreate];
        let public = SERVER.key_with_permissions(&keys.tenant, Public, &permissions);
        Self { keys, public }
    }

    /// A request of a hosted field.
    fn send_marked(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        let request = SERVER.request(method, path).key(&self.public);
        let request = request.header("Scrip-Field-Mark", "text");
        match method {
            "PATCH" => request.merge_patch(body).send(),
            _ => request.json(body).send(),
        }
    }

    fn create_marked(&self, body: &Value) -> Value {
        self.send_marked("POST", "/tokens", body).expect_status(201)
    }

    /// The key of an access session with one rule for all containers.
    pub(super) fn session(&self, permissions: &[&str], transform: &str) -> String {
        let request = SERVER.request("POST", "/sessions").key(&self.public);
        let session = request.send().expect_status(201);
        let rule = json!({"description": "page", "priority": 1, "container": "/",
            "transform": transform, "permissions": permissions});
        let body = json!({"nonce": session["nonce"], "rules": [rule]});
        SERVER.post(&self.keys.private, "/sessions/authorize", &body).expect_status(204);
        text_field(&session, "session_key")
    }

    fn read(&self, id: &str) -> Value {
        SERVER.get_token(&self.keys.private, id).expect_status(200)
    }
}

#[track_caller]
fn check_outline(response: &Value) {
    let allowed = ["id", "tenant_id", "type", "containers", "expires_at", "_extras"];
    let shown: Vec<_> = response.as_object().unwrap().keys().collect();
    assert!(shown.iter().all(|it| allowed.contains(&it.as_str())), "{response}");
    let extras = &response["_extras"];
    assert!(extras.is_null() || *extras == json!({"deduplicated": false}), "{response}");
}

fn bank() -> Value {
    json!({"type": "bank", "data": {"routing_number": "021000021", "account_number": "987654321"}})
}

#[test]
fn marked_token_shows_a_browser_only_id_type_containers_and_expiry() {
    let page = Page::new();
    let bodies = [
        json!({"type": "token", "data": "s", "metadata": {"a": "b"}}),
        bank(),
        json!({"type": "card", "data": {"number": "4242424242424242"}}),
        json!({"type": "card", "data": {"number": "4242424242424242", "cvv": "1", "x": "y"}}),
    ];
    for body in bodies {
        let created = page.create_marked(&body);
        check_outline(&created);
        let id = text_field(&created, "id");
        let patched =
            page.send_marked("PATCH", &format!("/tokens/{id}"), &json!({"metadata": {"x": "y"}}));
        check_outline(&patched.expect_status(200));
        let unmarked = SERVER.patch_token(&page.public, &id, &json!({"metadata": {"x": "z"}}));
        check_outline(&unmarked.expect_status(200));
        let stored = page.read(&id);
        let mut data = body["data"].clone();
        if let Some(attributes) = data.as_object_mut() {
            // A card has no such attributes, so they are not stored.
            attributes.retain(|name, _| !["cvv", "x"].contains(&name.as_str()));
        }
        assert_eq!(stored["data"], data);
        assert_eq!(stored["fingerprint"], Value::Null);
        let unmarked = SERVER.create_token_ok(&page.public, &body);
        assert!(unmarked["created_at"].is_string(), "an unmarked token has its detail: {unmarked}");
    }
    let both = json!({"a": bank(), "b": {"type": "token", "data": "s"}});
    let tokenized = page.send_marked("POST", "/tokenize", &both).expect_status(200);
    check_outline(&tokenized["a"]);
    check_outline(&tokenized["b"]);
}

#[test]
fn marked_token_accepts_no_expression_of_a_browser_over_its_data() {
    let page = Page::new();
    let attributes = [
        ("id", json!("order-{{ data | slice: 0, 1 }}")),
        ("mask", json!("{{ data | slice: 0, 1 }}")),
        ("fingerprint_expression", json!("{{ data | slice: 0, 1 }}")),
        ("search_indexes", json!(["{{ data | slice: 0, 1 }}"])),
    ];
    for (name, value) in attributes {
        let body = json!({"type": "token", "data": "secret", name: value});
        page.send_marked("POST", "/tokens", &body).expect_problem(403, name);
        assert_eq!(SERVER.create_token(&page.public, &body).status, 201, "{name} unmarked");
    }
}

#[test]
fn encrypted_data_of_a_browser_is_always_marked() {
    let page = Page::new();
    let client_key = SERVER.post(&page.keys.management, "/keys", &json!({})).expect_status(201);
    let body = || json!({"type": "bank", "encrypted": encrypt_json(&client_key, &bank()["data"])});
    check_outline(&SERVER.create_token_ok(&page.public, &body()));
    let intent = SERVER.post(&page.public, "/token-intents", &body()).expect_status(201);
    assert_eq!((&intent["bank"], &intent["fingerprint"]), (&Value::Null, &Value::Null), "{intent}");
    let convert = json!({"token_intent_id": intent["id"]});
    check_outline(&SERVER.create_token_ok(&page.public, &convert));
    let backend = SERVER.create_token_ok(&page.keys.private, &body());
    assert!(backend["fingerprint"].is_string() && backend["bank"].is_object(), "{backend}");
}

#[test]
fn conversion_of_a_marked_intent_keeps_the_mark() {
    let page = Page::new();
    let intent = page.send_marked("POST", "/token-intents", &bank()).expect_status(201);
    assert_eq!((&intent["bank"], &intent["fingerprint"]), (&Value::Null, &Value::Null), "{intent}");
    let convert = json!({"token_intent_id": intent["id"]});
    check_outline(&SERVER.create_token_ok(&page.public, &convert));
    let reader = SERVER.key_with_permissions(&page.keys.tenant, Public, &[TokenIntentCreate]);
    assert!(!reader.is_empty());
    let permissions = [TokenIntentRead, TokenRead];
    let private = scrip_core::types::ApplicationKind::Private;
    let backend = SERVER.key_with_permissions(&page.keys.tenant, private, &permissions);
    let intent = page.send_marked("POST", "/token-intents", &bank()).expect_status(201);
    let path = format!("/token-intents/{}", text_field(&intent, "id"));
    let shown = SERVER.get_path(&backend, &path).expect_status(200);
    assert_eq!(shown["bank"]["account_number_last4"], "4321", "a backend sees the details");
}

#[test]
fn mark_stays_until_the_whole_data_is_replaced() {
    let page = Page::new();
    let id = text_field(
        &page.create_marked(&json!({"type": "token", "data": {"a": "x", "b": "y"}})),
        "id",
    );
    let patch = |data: Value| {
        SERVER.patch_token(&page.public, &id, &json!({"data": data})).expect_status(200)
    };
    check_outline(&patch(json!({"a": "z"})));
    check_outline(&patch(json!({"c": "z"})));
    assert_eq!(page.read(&id)["fingerprint"], Value::Null);
    patch(json!(["a", "b"]));
    assert!(page.read(&id)["fingerprint"].is_string(), "an unmarked token has a fingerprint");
}

#[test]
fn write_with_a_reveal_right_computes_the_fingerprint_and_the_mark_stays() {
    let page = Page::new();
    let id = text_field(&page.create_marked(&bank()), "id");
    assert_eq!(page.read(&id)["fingerprint"], Value::Null);
    let patch = json!({"metadata": {"order": "7"}});
    SERVER.patch_token(&page.keys.private, &id, &patch).expect_status(200);
    let fingerprint = page.read(&id)["fingerprint"].clone();
    assert!(fingerprint.is_string());
    let patch = json!({"metadata": {"order": "8"}});
    check_outline(&SERVER.patch_token(&page.public, &id, &patch).expect_status(200));
    assert_eq!(page.read(&id)["fingerprint"], fingerprint, "the data did not change");
    let patch = json!({"data": {"account_number": "987654321"}});
    check_outline(&SERVER.patch_token(&page.public, &id, &patch).expect_status(200));
    assert_eq!(page.read(&id)["fingerprint"], Value::Null, "an equal guess looks like any other");
}

#[test]
fn browser_sees_no_fingerprint_of_type_token_and_finds_no_duplicate() {
    let page = Page::new();
    let body = json!({"type": "token", "data": "secret", "deduplicate_token": true});
    let known = SERVER.create_token_ok(&page.keys.private, &body);
    assert!(known["fingerprint"].is_string());
    let created = SERVER.create_token_ok(&page.public, &body);
    assert_ne!(created["id"], known["id"]);
    assert_eq!(created["fingerprint"], Value::Null);
    assert_eq!(page.read(&text_field(&created, "id"))["fingerprint"], known["fingerprint"]);
    let intent =
        SERVER.post(&page.public, "/token-intents", &json!({"type": "token", "data": "secret"}));
    assert_eq!(intent.expect_status(201)["fingerprint"], Value::Null);
    let again = SERVER.create_token_ok(&page.keys.private, &body);
    assert_eq!(again["_extras"]["deduplicated"], json!(true), "a backend deduplicates");
}

#[test]
fn search_does_not_find_a_marked_token_until_a_write_with_a_reveal_right() {
    let page = Page::new();
    let body = json!({"type": "social_security_number", "data": "123-45-6789"});
    let private = scrip_core::types::ApplicationKind::Private;
    let searcher = SERVER.key_with_permissions(&page.keys.tenant, private, &[TokenSearch]);
    let find = |id: &str| {
        let query = json!({"query": "data:\"6789\""});
        let found = SERVER.post(&searcher, "/tokens/search", &query).expect_status(200);
        found["data"].as_array().unwrap().iter().any(|it| it["id"] == id)
    };
    let unmarked = SERVER.create_token_id(&page.public, &body);
    assert!(find(&unmarked), "an unmarked token is found");
    let marked = text_field(&page.create_marked(&body), "id");
    assert!(!find(&marked));
    let intent = page.send_marked("POST", "/token-intents", &body).expect_status(201);
    let convert = json!({"token_intent_id": intent["id"]});
    let converted = SERVER.create_token_id(&page.public, &convert);
    assert!(!find(&converted));
    let patch = json!({"metadata": {"order": "7"}});
    SERVER.patch_token(&page.public, &marked, &patch).expect_status(200);
    assert!(!find(&marked), "a browser's write computes no entries");
    SERVER.patch_token(&page.keys.private, &marked, &patch).expect_status(200);
    assert!(find(&marked));
    let patch = json!({"metadata": {"order": "8"}});
    SERVER.patch_token(&page.public, &marked, &patch).expect_status(200);
    assert!(find(&marked), "the data did not change");
}

#[test]
fn data_of_a_marked_token_has_one_error() {
    let page = Page::new();
    let cases = [
        ("social_security_number", json!("12")),
        ("us_bank_routing_number", json!("021000022")),
        ("us_bank_routing_number", json!("x")),
        ("card_number", json!("4242424242424241")),
        ("bank", json!({"routing_number": "021000022", "account_number": "1"})),
        ("bank", json!({"routing_number": "021000021", "account_number": "x"})),
        ("card", json!({"number": "4242424242424241"})),
    ];
    for path in ["/tokens", "/token-intents"] {
        for (token_type, data) in &cases {
            let body = json!({"type": token_type, "data": data});
            let problem = page.send_marked("POST", path, &body).expect_status(400);
            let errors = json!({"data": ["does not fit its type"]});
            assert_eq!(problem["errors"], errors, "{token_type} {data}");
            let clear = SERVER.post(&page.public, path, &body).expect_status(400);
            assert_ne!(clear["errors"], errors, "a caller who knows the data sees the rule");
        }
    }
}

#[test]
fn browser_does_not_choose_the_place_of_data_that_it_does_not_know() {
    let page = Page::new();
    let send = |body: &Value| {
        let request = SERVER.request("POST", "/tokens").key(&page.public);
        request.header("Scrip-Field-Application", &page.public).json(body).send()
    };
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    let with = |name: &str, value: Value| {
        let mut body = card.clone();
        body[name] = value;
        body
    };
    send(&with("containers", json!(["/general/high/"]))).expect_problem(403, "containers");
    send(&with("id", json!("chosen-by-the-page"))).expect_problem(403, "cannot choose id");
    send(&with("containers", json!(["/pci/high/"]))).expect_status(201);
    let own = with("containers", json!(["/general/high/"]));
    SERVER.create_token(&page.public, &own).expect_status(201);
    let intent = || SERVER.post(&page.public, "/token-intents", &card).expect_status(201);
    let convert = |containers: Value| {
        let body = json!({"token_intent_id": intent()["id"], "containers": containers});
        SERVER.create_token(&page.public, &body)
    };
    convert(json!(["/general/high/"])).expect_problem(403, "containers");
    convert(json!(["/pci/high/"])).expect_status(201);
}

/// A request of a hosted field that names the kinds of its values.
pub(super) fn send_kinds(
    page: &Page,
    key: &str,
    path: &str,
    kinds: &str,
    body: &Value,
) -> TestResponse {
    let method = if path.starts_with("/tokens/") { "PATCH" } else { "POST" };
    let request = SERVER.request(method, path).key(key);
    let request = request.header("Scrip-Field-Application", &page.public);
    let request = request.header("Scrip-Field-Kinds", kinds);
    match method {
        "PATCH" => request.merge_patch(body).send(),
        _ => request.json(body).send(),
    }
}

#[test]
fn value_outside_of_its_own_attribute_of_a_card_is_marked() {
    let page = Page::new();
    let number = json!({"number": "4242424242424242"});
    let card = json!({"number": "4242424242424242", "expiration_month": 12,
        "expiration_year": 2040, "cvc": "987"});
    let cases = [
        ("card", &number, "number", false),
        ("card", &card, "number, month, year, code", false),
        ("card", &card, "card", false),
        ("card", &card, "none", false),
        ("card_number", &number["number"], "number", false),
        ("network_token", &number, "number", false),
        ("card", &number, "number, code", true),
        ("card", &card, "number, text", true),
        ("card", &card, "unknown", true),
        ("card", &card, "", true),
        ("card_number", &number["number"], "code", true),
        ("bank", &bank()["data"], "number", true),
        ("token", &card, "code", true),
        ("token", &card, "card", true),
        ("token", &card, "none", false),
    ];
    for (token_type, data, kinds, is_marked) in cases {
        for path in ["/tokens", "/token-intents"] {
            let body = json!({"type": token_type, "data": data});
            let created = send_kinds(&page, &page.public, path, kinds, &body).expect_status(201);
            let detail = if path == "/tokens" { "created_at" } else { "card" };
            if path == "/tokens" || created["type"] == "card" {
                assert_eq!(created[detail].is_null(), is_marked, "{path} {kinds}: {created}");
            }
        }
    }
    let request = SERVER.request("POST", "/tokens").key(&page.public);
    let unnamed = request.header("Scrip-Field-Application", &page.public);
    let body = json!({"type": "card", "data": card});
    check_outline(&unnamed.json(&body).send().expect_status(201));
}

/// The frame decides which leaf has the value, and the vault marks all of them.
#[test]
fn leaf_of_a_tokenize_request_with_the_value_of_a_field_is_marked() {
    let page = Page::new();
    let body = json!({"a": "737", "b": {"type": "card", "data": {"number": "4242424242424242"}}});
    for (kinds, is_marked) in [("none", false), ("number", true), ("code", true)] {
        let ids = send_kinds(&page, &page.public, "/tokenize", kinds, &body).expect_status(200);
        let leaf = page.read(ids["a"].as_str().unwrap());
        assert_eq!(leaf["fingerprint"].is_null(), is_marked, "leaf with {kinds}: {leaf}");
        let card = page.read(ids["b"]["id"].as_str().unwrap());
        assert_eq!(card["fingerprint"].is_null(), kinds == "code", "card with {kinds}: {card}");
    }
}

#[test]
fn update_with_the_value_of_a_field_marks_a_token_with_other_data_or_expressions() {
    let page = Page::new();
    let reader = page.session(&["token:read"], "mask");
    let update = |body: &Value, kinds: &str| {
        let id = SERVER.create_token_id(&page.public, body);
        let path = format!("/tokens/{id}");
        let patch = json!({"data": {"cvc": "987"}});
        send_kinds(&page, &page.public, &path, kinds, &patch).expect_status(200);
        SERVER.get_token(&reader, &id).expect_status(200)["created_at"].is_null()
    };
    let token = json!({"type": "token", "data": {"cvc": "x", "b": "y"}});
    assert!(update(&token, "code"), "no card has this attribute");
    assert!(!update(&token, "none"), "the page knows its own data");
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    assert!(!update(&card, "code"));
    let expressions = [
        ("mask", json!({"number": "{{ data.number | last4 }}"})),
        ("search_indexes", json!(["{{ data.number | last4 }}"])),
        ("fingerprint_expression", json!("{{ data.number }}")),
    ];
    for (name, expression) in expressions {
        let mut body = json!({"type": "token", "data": {"number": "12", "cvc": "x"}});
        body[name] = expression;
        assert!(update(&body, "code"), "{name}");
    }
}

#[test]
fn field_does_not_write_into_a_token_that_its_key_may_read() {
    let page = Page::new();
    let card = json!({"type": "card", "data": {"number": "4242424242424242"}});
    let id = SERVER.create_token_id(&page.keys.private, &card);
    let path = format!("/tokens/{id}");
    let patch = json!({"data": {"cvc": "987"}});
    let update = |key: &str, kinds: &str| send_kinds(&page, key, &path, kinds, &patch);
    let reader = page.session(&["token:read", "token:update"], "reveal");
    update(&reader, "code").expect_problem(403, "may read the token");
    update(&reader, "none").expect_status(200);
    update(&page.session(&["token:update"], "reveal"), "code")
        .expect_problem(403, "may read the token");
    update(&page.session(&["token:read", "token:update"], "mask"), "code").expect_status(200);
    update(&page.public, "code").expect_status(200);
}
