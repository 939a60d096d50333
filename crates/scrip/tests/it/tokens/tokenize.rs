//! Tokenize.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::types::{Permission::TokenCreate, Transform::Redact};
use scrip_testing::requests::{assert_members, with_members};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, card_body, text_field, text_fields, unique_card_number,
};

#[track_caller]
fn tokenize(body: &Value) -> Value {
    SERVER.post(&ACME.private, "/tokenize", body).expect_status(200)
}

/// Returns the data of the token that replaced a leaf.
#[track_caller]
fn data_of_leaf(id: &Value) -> Value {
    let token = SERVER.get_token(&ACME.private, id.as_str().expect("an id")).expect_status(200);
    assert_members(&token, &json!({"type": "token", "containers": ["/general/high/"]}));
    token["data"].clone()
}

#[test]
fn values_are_replaced_by_tokens_in_place() {
    let number = unique_card_number();
    let body = json!({
        "customer": {"name": "Jo", "card": card_body(&number), "since": 1999, "vip": true},
        "list": ["a", [json!({"type": "social_security_number", "data": "123-45-6789"})]],
        "none": null,
        "empty": {"object": {}, "array": [], "nulls": [null, {"a": null}]},
    });
    let keys = SERVER.create_default_tenant();
    SERVER.allow_large_requests(&keys.tenant);
    let created = SERVER.post(&keys.private, "/tokenize", &body).expect_status(200);

    let data = |id: &Value| {
        SERVER.get_token(&keys.private, id.as_str().unwrap()).expect_status(200)["data"].clone()
    };
    let customer = &created["customer"];
    assert_eq!(data(&customer["name"]), "Jo");
    assert_eq!(data(&customer["since"]), 1999);
    assert_eq!(data(&customer["vip"]), true);
    assert_eq!(data(&created["list"][0]), "a");
    let token = &customer["card"];
    assert_eq!((&token["type"], &token["data"]["number"]), (&json!("card"), &json!(number)));
    assert_eq!(token["data"]["cvc"], "123");
    assert_eq!(token["_extras"], json!({"deduplicated": false}));
    assert_eq!(created["list"][1][0]["data"], "123-45-6789");
    assert_eq!((&created["none"], &created["empty"]), (&body["none"], &body["empty"]));
    for attribute in ["customer", "list"] {
        let names = |it: &Value| it.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>());
        assert_eq!(names(&created[attribute]), names(&body[attribute]));
    }
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 6);
    let record_condition = "operation = 'tokenize' AND outcome = 'created'";
    assert_eq!(SERVER.count_rows_where(&keys.tenant, "log_records", record_condition), 6);
}

#[test]
fn any_json_body_can_be_tokenized() {
    for value in [json!("a text"), json!(0), json!(false), json!("")] {
        assert_eq!(data_of_leaf(&tokenize(&value)), value);
    }
    let request = SERVER.request("POST", "/tokenize/").key(&ACME.private);
    let long_number = "12345678901234567890123";
    let id = request.body("application/json", long_number).send().expect_status(200);
    let stored = SERVER.get_token(&ACME.private, id.as_str().unwrap()).text.contains(long_number);
    assert!(stored, "a body without tokens must be returned unchanged");
    for value in [json!(null), json!([]), json!({}), json!([null, {}])] {
        assert_eq!(tokenize(&value), value);
    }
    let created = tokenize(&json!([1, [2]]));
    assert_eq!((data_of_leaf(&created[0]), data_of_leaf(&created[1][0])), (json!(1), json!(2)));
    let token = tokenize(&json!({"type": "token", "data": {"a": [1, null]}}));
    assert_eq!(token["data"], json!({"a": [1, null]}));
    let request = || SERVER.request("POST", "/tokenize").key(&ACME.private);
    request().body("text/plain", "1").send().expect_problem(415, "");
    request().body("application/json", "{").send().expect_problem(400, "JSON");
}

#[test]
fn token_in_a_body_equals_create_token() {
    let attributes = json!({
        "containers": ["/customers/"],
        "metadata": {"customer": "7"},
        "mask": {"number": "{{ data.number | reveal_last: 4 }}"},
        "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}-{{ metadata.customer }}",
        "expires_at": "2090-08-27T04:23:57+02:00",
        "unknown": 1,
    });
    let body = with_members(card_body(&unique_card_number()), &attributes);
    let remove_unique_attributes = |mut token: Value| {
        for name in ["id", "created_at"] {
            assert!(token.as_object_mut().unwrap().remove(name).is_some());
        }
        token
    };
    let expected = remove_unique_attributes(SERVER.create_token_ok(&ACME.private, &body));
    let created = tokenize(&json!({"deep": [body]}));
    let id = text_field(&created["deep"][0], "id");
    assert_eq!(remove_unique_attributes(created["deep"][0].clone()), expected);
    let stored_token = SERVER.get_token(&ACME.private, &id).expect_status(200);
    assert_eq!(stored_token["metadata"], expected["metadata"]);
}

#[test]
fn tokenize_response_applies_the_transform() {
    let number = unique_card_number();
    let body = json!({"card": card_body(&number), "text": "secret"});
    let masked_response = SERVER.post(&ACME.public, "/tokenize", &body).expect_status(200);
    assert_eq!(masked_response["card"]["data"]["number"], format!("XXXXXXXXXXXX{}", &number[12..]));
    assert!(masked_response["card"]["data"].get("cvc").is_none());
    let redacted = SERVER.key_with_rule(&ACME.tenant, "/", Redact, &[TokenCreate]);
    let redacted = SERVER.post(&redacted, "/tokenize", &body).expect_status(200);
    assert!(redacted["card"].get("data").is_none());
    assert!(redacted["text"].is_string());
}

/// An object is a token only if it has both `type` and `data`.
#[test]
fn object_without_both_type_and_data_is_not_a_token() {
    let created = tokenize(&json!({"type": "card", "number": "4242"}));
    assert_eq!(data_of_leaf(&created["type"]), "card");
    assert_eq!(data_of_leaf(&created["number"]), "4242");
    let created = tokenize(&json!({"data": {"number": "1"}, "token_intent_id": null}));
    assert_eq!(data_of_leaf(&created["data"]["number"]), "1");
    assert_eq!(created["token_intent_id"], Value::Null);
}

#[test]
fn invalid_token_rejects_the_whole_request() {
    let keys = SERVER.create_default_tenant();
    let invalid_token = || json!({"type": "card", "data": {"number": "4242424242424241"}});
    let valid_token = || json!({"type": "token", "data": 1});
    let intent = json!({"token_intent_id": "x"});
    let expired = json!({"type": "token", "data": 1, "expires_at": "1/1/2001"});
    let intent_with_data = json!({"token_intent_id": "x", "type": "card", "data": 1});
    let table = [
        (json!({"customer": {"card": invalid_token(), "name": "Jo"}}), "customer.card.data.number"),
        (json!([1, valid_token(), {"type": "card_number", "data": 4242}]), "[2].data"),
        (json!([valid_token(), {"a": [invalid_token()]}]), "[1].a[0].data.number"),
        (json!({"a": {"type": "unheard_of", "data": 1}, "b": 1}), "a.type"),
        (json!({"a": {"type": 7, "data": 1}, "b": 1}), "a.type"),
        (json!({"a": {"type": "token", "data": null}, "b": 1}), "a.data"),
        (json!({"a": {"type": "token", "data": 1, "containers": ["x"]}}), "a.containers[0]"),
        (json!({"a": {"type": "token", "data": 1, "mask": "{{ data | }}"}}), "a.mask"),
        (json!({"a": 1, "b": {"type": "token", "data": 1, "id": "x"}}), "b.id"),
        (json!({"a": 1, "b": expired}), "b.expires_at"),
        (json!([1, intent]), "[1].token_intent_id"),
        (json!({"a": intent_with_data}), "a.token_intent_id"),
        (invalid_token(), "data.number"),
    ];
    for (body, attribute) in table {
        SERVER.post(&keys.private, "/tokenize", &body).expect_invalid(attribute);
    }
    let all =
        SERVER.post(&keys.private, "/tokenize", &json!([invalid_token(), 1, invalid_token()]));
    for attribute in ["[0].data.number", "[2].data.number"] {
        all.expect_invalid(attribute);
    }
    let all = json!([{"type": "a", "data": 1}, {"type": "token", "data": null}]);
    let all = SERVER.post(&keys.private, "/tokenize", &all);
    for attribute in ["[0].type", "[1].data"] {
        all.expect_invalid(attribute);
    }
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 0);
    assert_eq!(SERVER.count_rows_where(&keys.tenant, "log_records", "operation = 'tokenize'"), 0);
}

#[test]
fn denied_token_rejects_the_whole_request() {
    let keys = SERVER.create_default_tenant();
    let key_for_one_container = SERVER.key_with_rule(&keys.tenant, "/pci/", Redact, &[TokenCreate]);
    let body = json!([card_body(&unique_card_number()), card_body(&unique_card_number())]);
    SERVER.post(&key_for_one_container, "/tokenize", &body).expect_status(200);
    let card = || card_body(&unique_card_number());
    let body = json!([card(), "a text", card()]);
    SERVER.post(&key_for_one_container, "/tokenize", &body).expect_problem(403, "token:create");
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 2);
}

#[test]
fn tokenize_limit_is_enforced() {
    let TenantApiKeys { tenant, private, .. } = SERVER.create_default_tenant();
    let send_tokenize = |body: &Value| SERVER.post(&private, "/tokenize", body);
    let token = || json!({"type": "token", "data": {"many": [1, 2, 3, 4, 5, 6]}});
    send_tokenize(&json!([1, 2, [3, {"a": 4}], token(), null, {}, []])).expect_status(200);
    let response = send_tokenize(&json!([1, 2, [3, {"a": 4}], token(), token()]));
    response.expect_invalid("tokenize_limit");
    assert!(response.json()["errors"]["tokenize_limit"].to_string().contains("at most 5"));
    // No token is created, regardless of the number of values.
    send_tokenize(&json!(vec![1; 90_000])).expect_invalid("tokenize_limit");
    assert_eq!(SERVER.count_rows(&tenant, "tokens"), 5);
    SERVER.allow_large_requests(&tenant);
    let created = send_tokenize(&json!(vec![1; 200])).expect_status(200);
    assert_eq!(created.as_array().unwrap().len(), 200);
    send_tokenize(&json!(vec![1; 201])).expect_invalid("tokenize_limit");
}

/// The tokens of a request are one transaction, and other writers wait for it.
#[test]
fn tokens_of_one_request_with_too_many_index_entries_are_rejected() {
    let keys = SERVER.create_default_tenant();
    let containers: Vec<_> = (0..16).map(|it| format!("/c{it}/")).collect();
    let indexes: Vec<_> = (0..16).map(|it| format!("{{{{ data | append: '{it}' }}}}")).collect();
    let token = json!({"type": "token", "data": "x", "containers": containers,
        "search_indexes": indexes});
    let send_tokens =
        |count: usize| SERVER.post(&keys.private, "/tokenize", &json!(vec![&token; count]));
    send_tokens(4).expect_invalid("tokens");
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 0);
    send_tokens(3).expect_status(200);
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 3);
}

#[test]
fn token_with_too_many_index_entries_is_rejected() {
    let keys = SERVER.create_default_tenant();
    let token = |containers: usize, attributes: usize| {
        let containers: Vec<_> = (0..containers).map(|it| format!("/c{it}/")).collect();
        let metadata: HashMap<_, _> =
            (0..attributes).map(|it| (format!("m{it}"), format!("v{it}"))).collect();
        json!({"type": "token", "data": "x", "containers": containers, "metadata": metadata})
    };
    SERVER.post(&keys.private, "/tokens", &token(16, 50)).expect_invalid("containers");
    let created = SERVER.post(&keys.private, "/tokens", &token(2, 50)).expect_status(201);
    let id = text_field(&created, "id");
    let containers = json!({"containers": token(16, 0)["containers"]});
    SERVER.patch_token(&keys.private, &id, &containers).expect_invalid("containers");
    let fewer = json!({"containers": token(9, 0)["containers"]});
    SERVER.patch_token(&keys.private, &id, &fewer).expect_status(200);
}

#[test]
fn duplicate_ids_in_one_request_are_rejected() {
    let keys = SERVER.create_default_tenant();
    let send_tokenize = |body: &Value| SERVER.post(&keys.private, "/tokenize", body);
    let token_with_id = |id: &str| json!({"type": "token", "data": 1, "id": id});
    let created = send_tokenize(&json!({"a": token_with_id("mine"), "b": 1})).expect_status(200);
    assert_eq!(created["a"]["id"], "mine");
    for body in [
        json!([1, token_with_id("other"), token_with_id("mine")]),
        json!([token_with_id("mine"), 1]),
        json!([1, token_with_id("twice"), 2, token_with_id("twice")]),
    ] {
        send_tokenize(&body).expect_problem(409, "id");
    }
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 2);
    // A failed request does not reserve its ids.
    send_tokenize(&json!([token_with_id("other"), token_with_id("twice")])).expect_status(200);
}

#[test]
fn tokenize_draws_another_alias_if_the_alias_exists() {
    let keys = SERVER.create_default_tenant();
    SERVER.allow_large_requests(&keys.tenant);
    // One random letter or digit: 62 values are possible.
    let alias = "{{ data | alias_preserve_length: 2, 0 }}";
    let token_with_alias = json!({"type": "token", "data": "xyz", "id": alias});
    let body = json!(vec![&token_with_alias; 90]);
    let created = SERVER.post(&keys.private, "/tokenize", &body).expect_status(200);
    let mut ids = text_fields(&created, "id");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 90, "two tokens have the same id");
    let alias_count = ids.iter().filter(|it| it.len() == 3).count();
    assert!(alias_count > 30, "{alias_count}");

    // If a drawn id is equal to a requested id, the drawn id is replaced, at any position in the
    // request.
    let keys = SERVER.create_default_tenant();
    SERVER.allow_large_requests(&keys.tenant);
    let letters = ('0'..='9').chain('a'..='z').chain('A'..='Z');
    let tokens_with_ids =
        letters.map(|it| json!({"type": "token", "data": 1, "id": format!("xy{it}")}));
    let body: Vec<_> = std::iter::once(token_with_alias).chain(tokens_with_ids).collect();
    let created = SERVER.post(&keys.private, "/tokenize", &json!(body)).expect_status(200);
    assert_eq!(text_field(&created[0], "id").len(), 36);
}

/// Generates arbitrary JSON that contains tokens.
fn arbitrary_bodies() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f32>().prop_map(|it| json!(f64::from(it))),
        "[ -~é{}|]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let name = prop_oneof![Just("type".to_owned()), Just("data".to_owned()), "[a-z]{1,3}"];
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            vec((name, inner.clone()), 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect()))
                .prop_filter("this is a token", |it| {
                    it.get("type").is_none() || it.get("data").is_none()
                }),
            inner
                .prop_filter("data is required", |it| !it.is_null())
                .prop_map(|data| json!({"type": "token", "data": data})),
        ]
    })
}

/// Returns the detokenize request that reverts a tokenize response.
fn detokenize_body(body: &Value, tokenized: &Value) -> Value {
    let expression = |id: &Value| json!(format!("{{{{ {} }}}}", id.as_str().unwrap()));
    match (body, tokenized) {
        (Value::Object(body), Value::Object(created)) if created.contains_key("_extras") => {
            assert_eq!((&body["data"], &body["type"]), (&created["data"], &created["type"]));
            json!({"type": "token", "data": expression(&created["id"])})
        }
        (Value::Object(body), Value::Object(created)) => {
            assert_eq!(body.len(), created.len());
            body.iter()
                .map(|(name, it)| (name.clone(), detokenize_body(it, &created[name])))
                .collect()
        }
        (Value::Array(body), Value::Array(created)) => {
            assert_eq!(body.len(), created.len());
            body.iter().zip(created).map(|(body, created)| detokenize_body(body, created)).collect()
        }
        (Value::Null, _) => tokenized.clone(),
        (_, id) => expression(id),
    }
}

#[test]
fn tokenize_then_detokenize_returns_the_original() {
    let keys = SERVER.create_default_tenant();
    SERVER.allow_large_requests(&keys.tenant);
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&arbitrary_bodies(), |body| {
        let created = SERVER.post(&keys.private, "/tokenize", &body).expect_status(200);
        let expressions = detokenize_body(&body, &created);
        let detokenized = SERVER.post(&keys.private, "/detokenize", &expressions);
        let detokenized = detokenized.expect_status(200);
        prop_assert_eq!(detokenized, body);
        Ok(())
    });
    outcome.unwrap();
}
