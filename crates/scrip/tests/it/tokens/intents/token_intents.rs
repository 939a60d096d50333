//! Token intents: create, read, delete, convert and expire.

use std::{sync::Barrier, thread, time::Duration};

use scrip_core::{
    policy::{DeduplicationBehavior, TenantSettings},
    types::{ApplicationKind, Permission, Transform},
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TenantApiKeys, TestServer, card_body, grant, text_field, unique_card_number,
};

fn create_intent(server: &TestServer, key: &str, body: &Value) -> Value {
    server.post(key, "/token-intents", body).expect_status(201)
}

fn card_intent_body(number: &str) -> Value {
    json!({"type": "card", "data": {"number": number}})
}

/// The path of an intent.
fn intent_path(intent: &Value) -> String {
    format!("/token-intents/{}", text_field(intent, "id"))
}

fn conversion_body(intent: &Value) -> Value {
    json!({"token_intent_id": intent["id"]})
}

#[test]
fn token_intent_shows_card_details_but_no_data() {
    let number = unique_card_number();
    let created = create_intent(&SERVER, &ACME.public, &card_body(&number));
    let names: Vec<_> = created.as_object().unwrap().keys().cloned().collect();
    let expected = [
        "authentication",
        "card",
        "containers",
        "created_at",
        "created_by",
        "expires_at",
        "fingerprint",
        "id",
        "tenant_id",
        "type",
    ];
    assert_eq!(names, expected);
    assert_eq!(created["authentication"], Value::Null);
    assert_eq!(created["card"]["last4"], number[12..]);
    assert_eq!(created["card"]["expiration_month"], 7);
    let path = intent_path(&created);
    let get_response = SERVER.get_path(&ACME.private, &format!("{path}/"));
    assert_eq!(get_response.expect_status(200), created);
    assert!(!get_response.text.contains(&number) && !get_response.text.contains("123\""));
    // The fingerprint is equal to the fingerprint of a token with the same data.
    let token = SERVER.create_token_ok(&ACME.private, &card_body(&number));
    assert_eq!(token["fingerprint"], created["fingerprint"]);
    SERVER.delete(&ACME.private, &path).expect_status(204);
    SERVER.get_path(&ACME.private, &path).expect_problem(404, "Not found.");
    SERVER.delete(&ACME.private, &path).expect_problem(404, "Not found.");
    let second_conversion = SERVER.create_token(&ACME.private, &conversion_body(&created));
    second_conversion.expect_invalid("token_intent_id");
}

#[test]
fn every_token_type_can_be_an_intent() {
    let rows = [
        (json!({"type": "token", "data": {"any": [1]}}), None),
        (
            json!({"type": "bank", "data": {"routing_number": "021000021", "account_number": "1234567"}}),
            Some("bank"),
        ),
        (json!({"type": "card_number", "data": "4242424242424242"}), Some("card")),
        (json!({"type": "social_security_number", "data": "123-45-6789"}), None),
        (
            json!({"type": "network_token", "data": {"number": "4242424242424242"},
            "authentication": {"threeds_cryptogram": "AAAA", "eci_indicator": "05"}}),
            Some("network_token"),
        ),
    ];
    for (body, detail) in rows {
        let created = create_intent(&SERVER, &ACME.private, &body);
        for name in ["bank", "card", "network_token"] {
            assert_eq!(created[name].is_object(), detail == Some(name), "{created}");
        }
        assert_eq!(created.get("card").is_some_and(Value::is_null), detail != Some("card"));
        assert_eq!(created["authentication"], body["authentication"]);
        let token = SERVER.create_token_ok(&ACME.private, &conversion_body(&created));
        assert_eq!((&token["type"], &token["data"]), (&body["type"], &body["data"]));
        assert_eq!(token["fingerprint"], created["fingerprint"]);
    }
}

#[test]
fn invalid_token_intents_name_the_attribute() {
    let expect_rejected = |body: Value, attribute: &str| {
        SERVER.post(&ACME.private, "/token-intents", &body).expect_invalid(attribute);
    };
    expect_rejected(json!({"data": 1}), "type");
    expect_rejected(json!({"type": "robot", "data": 1}), "type");
    expect_rejected(json!({"type": "card"}), "data");
    expect_rejected(json!({"type": "card", "data": {"number": "4242424242424241"}}), "data.number");
    expect_rejected(
        json!({"type": "token", "data": 1, "authentication": {"eci_indicator": "05"}}),
        "authentication",
    );
    expect_rejected(
        json!({"type": "network_token", "data": {"number": "4242424242424242"}, "authentication": {"eci_indicator": 5}}),
        "authentication",
    );
    for body in [
        json!({"token_intent_id": "x", "type": "token", "data": 1}),
        json!({"token_intent_id": "nonsense"}),
    ] {
        SERVER.create_token(&ACME.private, &body).expect_invalid("token_intent_id");
    }
    assert_eq!(SERVER.get_path(&ACME.private, "/token-intents/nonsense").status, 404);
}

#[test]
fn conversion_drops_the_cvc_and_keeps_other_attributes() {
    let number = unique_card_number();
    let body = json!({"type": "card", "data": {"number": number, "cvc": "737"}});
    let created = create_intent(&SERVER, &ACME.public, &body);
    let token = SERVER.create_token_ok(&ACME.private, &json!({
        "token_intent_id": created["id"], "id": format!("of-{}", text_field(&created, "id")),
        "containers": ["/converted/"], "metadata": {"who": "me"}, "expires_at": "2090-01-01T00:00:00Z",
        "search_indexes": ["{{ data.number }}"], "mask": {"n": "{{ data.number | last4 }}"},
    }));
    assert_eq!(token["data"], json!({"number": number}));
    assert_eq!(token["containers"], json!(["/converted/"]));
    let query = json!({"query": format!("data:{number}")});
    let search_result = SERVER.post(&ACME.private, "/v2/tokens/search", &query).expect_status(200);
    assert_eq!(search_result["data"][0]["id"], token["id"]);
    assert_eq!(SERVER.get_path(&ACME.private, &intent_path(&created)).status, 404);
}

#[test]
fn only_one_of_100_concurrent_conversions_succeeds() {
    let created = create_intent(&SERVER, &ACME.private, &card_intent_body(&unique_card_number()));
    let body = conversion_body(&created);
    let barrier = Barrier::new(100);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let spawn_conversion = |_| {
            scope.spawn(|| {
                barrier.wait();
                SERVER.create_token(&ACME.private, &body).status
            })
        };
        let conversions: Vec<_> = (0..100).map(spawn_conversion).collect();
        conversions.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|it| **it == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|it| **it == 400).count(), 99);
}

#[test]
fn tokenize_converts_all_or_none() {
    let create =
        |()| create_intent(&SERVER, &ACME.private, &card_intent_body(&unique_card_number()));
    let intents = [(); 2].map(create);
    let body = json!({"a": conversion_body(&intents[0]), "b": [conversion_body(&intents[1]), {"type": "card", "data": {"number": "1"}}]});
    assert_eq!(SERVER.post(&ACME.private, "/tokenize", &body).status, 400);
    let body_with_repeated_intent =
        json!([conversion_body(&intents[0]), conversion_body(&intents[0])]);
    assert_eq!(SERVER.post(&ACME.private, "/tokenize", &body_with_repeated_intent).status, 400);
    for intent in &intents {
        assert_eq!(SERVER.get_path(&ACME.private, &intent_path(intent)).status, 200);
    }
    let body =
        json!({"a": conversion_body(&intents[0]), "b": [conversion_body(&intents[1]), "leaf"]});
    let created = SERVER.post(&ACME.private, "/tokenize", &body).expect_status(200);
    assert_eq!(created["a"]["type"], "card");
    assert_eq!(created["b"][0]["fingerprint"], intents[1]["fingerprint"]);
    let nested_body = json!({"deep": [conversion_body(&intents[0])]});
    SERVER.post(&ACME.private, "/tokenize", &nested_body).expect_invalid("deep[0].token_intent_id");
}

/// Starts a server with a tenant that deduplicates tokens.
fn start_deduplicating_server() -> (TestServer, TenantApiKeys) {
    let server = TestServer::start();
    let settings = TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::ReadExisting,
        ..TenantSettings::default()
    };
    let keys = server.create_test_tenant(settings);
    (server, keys)
}

#[test]
fn conversion_updates_an_existing_duplicate() {
    let (server, keys) = start_deduplicating_server();
    let number = unique_card_number();
    let data = |year: u32| json!({"number": number, "expiration_year": year, "cvc": "123"});
    let first = server.create_token_ok(&keys.private, &json!({"type": "card", "data": data(2030)}));
    let created =
        create_intent(&server, &keys.public, &json!({"type": "card", "data": data(2035)}));
    let body = json!({"token_intent_id": created["id"], "metadata": {"new": "yes"}});
    let token = server.create_token_ok(&keys.private, &body);
    assert_eq!(token["id"], first["id"]);
    assert_eq!(token["data"]["expiration_year"], 2035);
    assert_eq!(token["metadata"], json!({"new": "yes"}));
    let expected_extras =
        json!({"deduplicated": true, "deduplication_behavior": "update_existing"});
    assert_eq!(token["_extras"], expected_extras);
    assert_eq!(server.get_path(&keys.private, &intent_path(&created)).status, 404);
    // Without the permission to update, the existing token is returned unchanged.
    let permissions =
        &[Permission::TokenCreate, Permission::TokenRead, Permission::TokenIntentCreate];
    let key = server.key_with_permissions(&keys.tenant, ApplicationKind::Private, permissions);
    let created = create_intent(&server, &key, &json!({"type": "card", "data": data(2040)}));
    let token = server.create_token_ok(&key, &conversion_body(&created));
    assert_eq!(token["_extras"]["deduplication_behavior"], "read_existing");
    let unchanged = server.get_token(&keys.private, &text_field(&first, "id")).json();
    assert_eq!(unchanged["data"]["expiration_year"], 2035);
    assert_eq!(server.get_path(&keys.private, &intent_path(&created)).status, 404);
}

#[test]
fn intent_expires_with_its_retention_and_its_cvc_earlier() {
    let (server, keys) = TestServer::start_with_tenant();
    let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let created = create_intent(&server, &keys.private, &body);
    let path = intent_path(&created);
    let request = json!({"d": format!("{{{{ token_intent: {} | json: '$.data' }}}}", text_field(&created, "id"))});
    let send_detokenize = |key: &str| server.post(key, "/detokenize", &request);
    assert_eq!(send_detokenize(&keys.private).expect_status(200)["d"]["cvc"], "123");
    server.clock.advance(Duration::from_secs(3600));
    let data = send_detokenize(&keys.private).expect_status(200)["d"].clone();
    assert_eq!(data, json!({"number": "4242424242424242"}));
    server.clock.advance(Duration::from_secs(23 * 3600 - 1));
    assert_eq!(server.get_path(&keys.private, &path).status, 200);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.get_path(&keys.private, &path).status, 404);
    assert_eq!(server.delete(&keys.private, &path).status, 404);
    assert_eq!(send_detokenize(&keys.private).status, 400);
    let conversion = server.create_token(&keys.private, &conversion_body(&created));
    conversion.expect_invalid("token_intent_id");
}

#[test]
fn detokenize_applies_the_transform_to_intents() {
    let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let id = SERVER.create_intent_id(&ACME.private, &body);
    let request = json!({
        "number": format!("{{{{ token_intent: {id} | json: '$.data.number' }}}}"),
        "cvc": format!("{{{{ token_intent: {id} | json: '$.data.cvc' }}}}"),
        "last4": format!("{{{{ token_intent: {id} | json: '$.card.last4' }}}}"),
    });
    let send_detokenize = |key: &str| SERVER.post(key, "/detokenize", &request);
    let clear = json!({"number": "4242424242424242", "cvc": "123", "last4": "4242"});
    assert_eq!(send_detokenize(&ACME.private).expect_status(200), clear);
    let permissions = &[Permission::TokenRead, Permission::TokenIntentRead];
    let key_without_reveal =
        SERVER.key_with_permissions(&ACME.tenant, ApplicationKind::Private, permissions);
    let masked = json!({"number": "XXXXXXXXXXXX4242", "cvc": null, "last4": "4242"});
    assert_eq!(send_detokenize(&key_without_reveal).expect_status(200), masked);
    let (kind, permissions_without_intents) = (ApplicationKind::Private, [Permission::TokenRead]);
    let key_without_intent_read =
        SERVER.key_with_permissions(&ACME.tenant, kind, &permissions_without_intents);
    send_detokenize(&key_without_intent_read).expect_problem(403, "token-intent:read");
    let rules_for_other_container = vec![grant("/general/", Transform::Reveal, permissions)];
    send_detokenize(&SERVER.key_with_rules(&ACME.tenant, rules_for_other_container))
        .expect_problem(403, "token:read");
    let other_tenant_keys = SERVER.create_default_tenant();
    assert_eq!(send_detokenize(&other_tenant_keys.private).status, 400);
}

/// A caller without a reveal right cannot set an expression that discloses the data, and errors
/// disclose nothing.
#[test]
fn conversion_without_reveal_right_discloses_nothing() {
    let permissions =
        &[Permission::TokenCreate, Permission::TokenRead, Permission::TokenIntentCreate];
    let key_without_reveal =
        SERVER.key_with_permissions(&ACME.tenant, ApplicationKind::Private, permissions);
    let number = "4242424242424242";
    let card = || create_intent(&SERVER, &ACME.public, &card_intent_body(number));
    let ssn_body = json!({"type": "social_security_number", "data": "123-45-6789"});
    let ssn = || create_intent(&SERVER, &ACME.public, &ssn_body);
    let convert_with = |intent: &Value, name: &str, value: Value| {
        let mut body = conversion_body(intent);
        body[name] = value;
        SERVER.create_token(&key_without_reveal, &body)
    };
    let (unused_card, unused_ssn) = (card(), ssn());
    for (intent, name, value) in [
        (&unused_card, "fingerprint_expression", json!("{{ data.number | slice: 6, 2 }}")),
        (&unused_card, "search_indexes", json!(["{{ data.number }}"])),
        (&unused_ssn, "search_indexes", json!(["{{ data | slice: 0 }}"])),
        (&unused_ssn, "fingerprint_expression", json!("{{ data | slice: 0 }}")),
        (&unused_ssn, "mask", json!("{{ data }}")),
        (&unused_card, "mask", json!(["4242424242424242"])),
        (&unused_card, "mask", json!(["4242424212344242"])),
        (&unused_card, "id", json!("{{ data.number | slice: 0, 8 }}4242{{ data.number | last4 }}")),
        (&unused_card, "id", json!("{{ data.number | slice: 0, 8 }}1234{{ data.number | last4 }}")),
        (&unused_ssn, "id", json!("{{ data | alias_preserve_format: 9, 0 }}")),
    ] {
        convert_with(intent, name, value).expect_problem(403, name);
    }
    // The number and a lookalike of it are rejected with the same message.
    let response_to_number_as_id = convert_with(&unused_card, "id", json!("x-4242424242424242"));
    let response_to_lookalike_id = convert_with(&unused_card, "id", json!("x-4242 4242-0000.4242"));
    response_to_number_as_id.expect_invalid("id");
    assert_eq!(response_to_number_as_id.without_trace(), response_to_lookalike_id.without_trace());
    // Expressions that disclose no more than the visible details are allowed.
    let unused_id = |prefix: &str| json!(format!("{prefix}{}", uuid::Uuid::new_v4()));
    for (intent, name, value) in [
        (card(), "search_indexes", json!(["{{ data.number | last4 }}"])),
        (card(), "fingerprint_expression", json!("{{ data.number }}")),
        (card(), "id", unused_id("own-")),
        (ssn(), "search_indexes", json!(["{{ data | last4 }}", "{{ data }}"])),
        (ssn(), "id", unused_id("own-")),
        // No error discloses whether an id contains the number of another type.
        (ssn(), "id", unused_id("123-45-6789 ")),
    ] {
        convert_with(&intent, name, value).expect_status(201);
    }
    // A caller with a reveal right may set any expression.
    let intent = card();
    let body = json!({"token_intent_id": intent["id"],
        "fingerprint_expression": "{{ data.number | slice: 6, 2 }}"});
    SERVER.create_token_ok(&ACME.private, &body);
}

#[test]
fn repeated_intent_requests_are_replayed() {
    let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let request = || {
        let response = SERVER.post_once(&ACME.public, "/token-intents", "intent-once", &body);
        response.expect_status(201)
    };
    assert_eq!(request(), request());
    let created = request();
    let body = conversion_body(&created);
    let send_conversion =
        || SERVER.post_once(&ACME.private, "/tokens", "convert-once", &body).expect_status(201);
    assert_eq!(send_conversion(), send_conversion());
}

/// The create permission shows data that the caller sent, but not data of another caller.
#[test]
fn conversion_returns_only_data_visible_by_the_read_permission() {
    let number = "4242424242424242";
    let created = || create_intent(&SERVER, &ACME.public, &card_intent_body(number));
    let create_rule = grant("/pci/", Transform::Reveal, &[Permission::TokenCreate]);
    let read_rule = |transform| grant("/pci/", transform, &[Permission::TokenRead]);
    for (transform, expected) in [
        (None, None),
        (Some(Transform::Redact), None),
        (Some(Transform::Mask), Some(json!({"number": "XXXXXXXXXXXX4242"}))),
        (Some(Transform::Reveal), Some(json!({"number": number}))),
    ] {
        let rules = [create_rule.clone()].into_iter().chain(transform.map(read_rule)).collect();
        let key = SERVER.key_with_rules(&ACME.tenant, rules);
        let body = conversion_body(&created());
        let converted = SERVER.post_once(&key, "/tokens", "once", &body).expect_status(201);
        assert_eq!(converted.get("data"), expected.as_ref(), "{transform:?}");
    }
}
