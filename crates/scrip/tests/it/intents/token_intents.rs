//! Token intents: created, read, deleted, converted, and gone by themselves.

use std::{sync::Barrier, thread, time::Duration};

use scrip_core::policy::{
    ApplicationKind, DeduplicationBehavior, Permission, TenantSettings, Transform,
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TenantApiKeys, TestServer, card_body, grant, text_field,
    unique_card_number,
};

fn create_intent(server: &TestServer, key: &str, body: &Value) -> Value {
    server.post(key, "/token-intents", body).expect_status(201)
}

fn conversion_body(intent: &Value) -> Value {
    json!({"token_intent_id": intent["id"]})
}

#[test]
fn token_intent_shows_card_details_but_no_data() {
    let number = unique_card_number();
    let body = json!({"type": "card", "data":
        {"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"}});
    let created = create_intent(&SHARED_SERVER, &ACME.public, &body);
    let names: Vec<_> = created.as_object().unwrap().keys().cloned().collect();
    let expected = [
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
    assert_eq!(created["card"]["last4"], number[12..]);
    assert_eq!(created["card"]["expiration_month"], 7);
    let path = format!("/token-intents/{}", text_field(&created, "id"));
    let found = SHARED_SERVER.get_path(&ACME.private, &format!("{path}/"));
    assert_eq!(found.expect_status(200), created);
    assert!(!found.text.contains(&number) && !found.text.contains("123\""));
    // Its fingerprint is the one that a token of it has.
    let token = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&number));
    assert_eq!(token["fingerprint"], created["fingerprint"]);
    SHARED_SERVER.delete(&ACME.private, &path).expect_status(204);
    SHARED_SERVER.get_path(&ACME.private, &path).expect_problem(404, "no such thing");
    SHARED_SERVER.delete(&ACME.private, &path).expect_problem(404, "no such thing");
    let gone = SHARED_SERVER.create_token(&ACME.private, &conversion_body(&created));
    gone.expect_invalid("token_intent_id");
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
        let created = create_intent(&SHARED_SERVER, &ACME.private, &body);
        for name in ["bank", "card", "network_token"] {
            assert_eq!(created.get(name).is_some(), detail == Some(name), "{created}");
        }
        assert_eq!(created.get("authentication"), body.get("authentication"));
        let token = SHARED_SERVER.create_token_ok(&ACME.private, &conversion_body(&created));
        assert_eq!((&token["type"], &token["data"]), (&body["type"], &body["data"]));
        assert_eq!(token["fingerprint"], created["fingerprint"]);
    }
}

#[test]
fn invalid_token_intents_name_the_attribute() {
    let rejected = |body: Value, attribute: &str| {
        SHARED_SERVER.post(&ACME.private, "/token-intents", &body).expect_invalid(attribute);
    };
    rejected(json!({"data": 1}), "type");
    rejected(json!({"type": "robot", "data": 1}), "type");
    rejected(json!({"type": "card"}), "data");
    rejected(json!({"type": "card", "data": {"number": "4242424242424241"}}), "data.number");
    rejected(
        json!({"type": "token", "data": 1, "authentication": {"eci_indicator": "05"}}),
        "authentication",
    );
    rejected(
        json!({"type": "network_token", "data": {"number": "4242424242424242"}, "authentication": {"eci_indicator": 5}}),
        "authentication",
    );
    let both = json!({"token_intent_id": "x", "type": "token", "data": 1});
    SHARED_SERVER.create_token(&ACME.private, &both).expect_invalid("token_intent_id");
    SHARED_SERVER
        .create_token(&ACME.private, &json!({"token_intent_id": "nonsense"}))
        .expect_invalid("token_intent_id");
    assert_eq!(SHARED_SERVER.get_path(&ACME.private, "/token-intents/nonsense").status, 404);
}

#[test]
fn conversion_drops_the_cvc_and_keeps_other_attributes() {
    let number = unique_card_number();
    let body = json!({"type": "card", "data": {"number": number, "cvc": "737"}});
    let created = create_intent(&SHARED_SERVER, &ACME.public, &body);
    let token = SHARED_SERVER.create_token_ok(&ACME.private, &json!({
        "token_intent_id": created["id"], "id": format!("of-{}", text_field(&created, "id")),
        "containers": ["/converted/"], "metadata": {"who": "me"}, "expires_at": "2090-01-01T00:00:00Z",
        "search_indexes": ["{{ data.number }}"], "mask": {"n": "{{ data.number | last4 }}"},
    }));
    assert_eq!(token["data"], json!({"number": number}));
    assert_eq!(token["containers"], json!(["/converted/"]));
    let query = json!({"query": format!("data:{number}")});
    let found = SHARED_SERVER.post(&ACME.private, "/v2/tokens/search", &query).expect_status(200);
    assert_eq!(found["data"][0]["id"], token["id"]);
    let path = format!("/token-intents/{}", text_field(&created, "id"));
    assert_eq!(SHARED_SERVER.get_path(&ACME.private, &path).status, 404);
}

#[test]
fn only_one_of_100_concurrent_conversions_succeeds() {
    let created = create_intent(
        &SHARED_SERVER,
        &ACME.private,
        &json!({"type": "card", "data": {"number": unique_card_number()}}),
    );
    let body = conversion_body(&created);
    let barrier = Barrier::new(100);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let one = |_| {
            scope.spawn(|| {
                barrier.wait();
                SHARED_SERVER.create_token(&ACME.private, &body).status
            })
        };
        let all: Vec<_> = (0..100).map(one).collect();
        all.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|it| **it == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|it| **it == 400).count(), 99);
}

#[test]
fn tokenize_converts_all_or_none() {
    let intents: Vec<_> = (0..2)
        .map(|_| {
            create_intent(
                &SHARED_SERVER,
                &ACME.private,
                &json!({"type": "card", "data": {"number": unique_card_number()}}),
            )
        })
        .collect();
    let body = json!({"a": conversion_body(&intents[0]), "b": [conversion_body(&intents[1]), {"type": "card", "data": {"number": "1"}}]});
    assert_eq!(SHARED_SERVER.post(&ACME.private, "/tokenize", &body).status, 400);
    let twice = json!([conversion_body(&intents[0]), conversion_body(&intents[0])]);
    assert_eq!(SHARED_SERVER.post(&ACME.private, "/tokenize", &twice).status, 400);
    for intent in &intents {
        let path = format!("/token-intents/{}", text_field(intent, "id"));
        assert_eq!(SHARED_SERVER.get_path(&ACME.private, &path).status, 200);
    }
    let body =
        json!({"a": conversion_body(&intents[0]), "b": [conversion_body(&intents[1]), "leaf"]});
    let created = SHARED_SERVER.post(&ACME.private, "/tokenize", &body).expect_status(200);
    assert_eq!(created["a"]["type"], "card");
    assert_eq!(created["b"][0]["fingerprint"], intents[1]["fingerprint"]);
    let unknown = json!({"deep": [conversion_body(&intents[0])]});
    SHARED_SERVER
        .post(&ACME.private, "/tokenize", &unknown)
        .expect_invalid("deep[0].token_intent_id");
}

/// A tenant that deduplicates, and reads what is there for other creates.
fn deduplicating_tenant() -> (TestServer, TenantApiKeys) {
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
    let (server, keys) = deduplicating_tenant();
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
    let extras = json!({"deduplicated": true, "deduplication_behavior": "update_existing"});
    assert_eq!(token["_extras"], extras);
    assert_eq!(
        server
            .get_path(&keys.private, &format!("/token-intents/{}", text_field(&created, "id")))
            .status,
        404
    );

    // Without the permission to update, it is read.
    let may = &[Permission::TokenCreate, Permission::TokenRead, Permission::TokenIntentCreate];
    let key = server.key_with_permissions(&keys.tenant, ApplicationKind::Private, may);
    let created = create_intent(&server, &key, &json!({"type": "card", "data": data(2040)}));
    let token = server.create_token_ok(&key, &conversion_body(&created));
    assert_eq!(token["_extras"]["deduplication_behavior"], "read_existing");
    assert_eq!(
        server.get_token(&keys.private, &text_field(&first, "id")).json()["data"]["expiration_year"],
        2035
    );
    assert_eq!(
        server
            .get_path(&keys.private, &format!("/token-intents/{}", text_field(&created, "id")))
            .status,
        404
    );
}

#[test]
fn intent_expires_with_its_retention_and_its_cvc_earlier() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let created = create_intent(&server, &keys.private, &body);
    let path = format!("/token-intents/{}", text_field(&created, "id"));
    let ask = json!({"d": format!("{{{{ token_intent: {} | json: '$.data' }}}}", text_field(&created, "id"))});
    let seen = |key: &str| server.post(key, "/detokenize", &ask);
    assert_eq!(seen(&keys.private).expect_status(200)["d"]["cvc"], "123");
    server.clock.advance(Duration::from_secs(3600));
    assert_eq!(seen(&keys.private).expect_status(200)["d"], json!({"number": "4242424242424242"}));
    server.clock.advance(Duration::from_secs(23 * 3600 - 1));
    assert_eq!(server.get_path(&keys.private, &path).status, 200);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.get_path(&keys.private, &path).status, 404);
    assert_eq!(server.delete(&keys.private, &path).status, 404);
    assert_eq!(seen(&keys.private).status, 400);
    server
        .create_token(&keys.private, &conversion_body(&created))
        .expect_invalid("token_intent_id");
}

#[test]
fn detokenize_applies_the_transform_to_intents() {
    let created = create_intent(
        &SHARED_SERVER,
        &ACME.private,
        &json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}}),
    );
    let id = text_field(&created, "id");
    let ask = json!({
        "number": format!("{{{{ token_intent: {id} | json: '$.data.number' }}}}"),
        "cvc": format!("{{{{ token_intent: {id} | json: '$.data.cvc' }}}}"),
        "last4": format!("{{{{ token_intent: {id} | json: '$.card.last4' }}}}"),
    });
    let seen = |key: &str| SHARED_SERVER.post(key, "/detokenize", &ask);
    assert_eq!(
        seen(&ACME.private).expect_status(200),
        json!({"number": "4242424242424242", "cvc": "123", "last4": "4242"})
    );
    let both = &[Permission::TokenRead, Permission::TokenIntentRead];
    let masked = SHARED_SERVER.key_with_permissions(&ACME.tenant, ApplicationKind::Private, both);
    assert_eq!(
        seen(&masked).expect_status(200),
        json!({"number": "XXXXXXXXXXXX4242", "cvc": null, "last4": "4242"})
    );
    let one = SHARED_SERVER.key_with_permissions(
        &ACME.tenant,
        ApplicationKind::Private,
        &[Permission::TokenRead],
    );
    seen(&one).expect_problem(403, "token-intent:read");
    let elsewhere = vec![grant("/general/", Transform::Reveal, both)];
    seen(&SHARED_SERVER.key_with_rules(&ACME.tenant, elsewhere)).expect_problem(403, "token:read");
    let theirs = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    assert_eq!(seen(&theirs.private).status, 400);
}

/// Whoever may not see the data gives no expression that would tell of it, nor learns by refusals.
#[test]
fn conversion_without_reveal_right_discloses_nothing() {
    let may = &[Permission::TokenCreate, Permission::TokenRead, Permission::TokenIntentCreate];
    let blind = SHARED_SERVER.key_with_permissions(&ACME.tenant, ApplicationKind::Private, may);
    let number = "4242424242424242";
    let card = || {
        create_intent(
            &SHARED_SERVER,
            &ACME.public,
            &json!({"type": "card", "data": {"number": number}}),
        )
    };
    let ssn = || {
        create_intent(
            &SHARED_SERVER,
            &ACME.public,
            &json!({"type": "social_security_number", "data": "123-45-6789"}),
        )
    };
    let with = |intent: &Value, name: &str, value: Value| {
        let mut body = conversion_body(intent);
        body[name] = value;
        SHARED_SERVER.create_token(&blind, &body)
    };
    let (kept_card, kept_ssn) = (card(), ssn());
    for (intent, name, value) in [
        (&kept_card, "fingerprint_expression", json!("{{ data.number | slice: 6, 2 }}")),
        (&kept_card, "search_indexes", json!(["{{ data.number }}"])),
        (&kept_ssn, "search_indexes", json!(["{{ data | slice: 0 }}"])),
        (&kept_ssn, "fingerprint_expression", json!("{{ data | slice: 0 }}")),
        (&kept_ssn, "mask", json!("{{ data }}")),
        (&kept_card, "mask", json!(["4242424242424242"])),
        (&kept_card, "mask", json!(["4242424212344242"])),
        (&kept_card, "id", json!("{{ data.number | slice: 0, 8 }}4242{{ data.number | last4 }}")),
        (&kept_card, "id", json!("{{ data.number | slice: 0, 8 }}1234{{ data.number | last4 }}")),
        (&kept_ssn, "id", json!("{{ data | alias_preserve_format: 9, 0 }}")),
    ] {
        with(intent, name, value).expect_problem(403, name);
    }
    // The number itself, and one that only looks like it, are refused in the same words.
    let itself = with(&kept_card, "id", json!("x-4242424242424242"));
    let lookalike = with(&kept_card, "id", json!("x-4242 4242-0000.4242"));
    itself.expect_invalid("id");
    assert_eq!(itself.without_trace(), lookalike.without_trace());
    // What tells no more than everybody sees is allowed.
    with(&card(), "search_indexes", json!(["{{ data.number | last4 }}"])).expect_status(201);
    with(&card(), "fingerprint_expression", json!("{{ data.number }}")).expect_status(201);

    with(&card(), "id", json!(format!("own-{}", uuid::Uuid::new_v4()))).expect_status(201);
    with(&ssn(), "search_indexes", json!(["{{ data | last4 }}", "{{ data }}"])).expect_status(201);
    with(&ssn(), "id", json!(format!("own-{}", uuid::Uuid::new_v4()))).expect_status(201);
    // Whether an id holds a number that is no card's, nobody is told.
    with(&ssn(), "id", json!(format!("123-45-6789 {}", uuid::Uuid::new_v4()))).expect_status(201);
    // A key that sees everything may say anything.
    let open = card();
    let body = json!({"token_intent_id": open["id"], "fingerprint_expression": "{{ data.number | slice: 6, 2 }}"});
    SHARED_SERVER.create_token_ok(&ACME.private, &body);
}

#[test]
fn repeated_intent_requests_are_replayed() {
    let ask = || {
        let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
        let ask = SHARED_SERVER
            .request("POST", "/token-intents")
            .key(&ACME.public)
            .idempotency_key("intent-once");
        ask.json(&body).send().expect_status(201)
    };
    assert_eq!(ask(), ask());
    let created = ask();
    let convert = || {
        let ask = SHARED_SERVER
            .request("POST", "/tokens")
            .key(&ACME.private)
            .idempotency_key("convert-once");
        ask.json(&conversion_body(&created)).send().expect_status(201)
    };
    assert_eq!(convert(), convert());
}

/// A right to create shows what one brought. What somebody else brought, it does not.
#[test]
fn conversion_returns_only_data_visible_by_the_read_permission() {
    let number = "4242424242424242";
    let created = || {
        create_intent(
            &SHARED_SERVER,
            &ACME.public,
            &json!({"type": "card", "data": {"number": number}}),
        )
    };
    let create = grant("/pci/", Transform::Reveal, &[Permission::TokenCreate]);
    let read = |transform| grant("/pci/", transform, &[Permission::TokenRead]);
    let shown = |rules, key: &str| {
        let ask = SHARED_SERVER
            .request("POST", "/tokens")
            .key(&SHARED_SERVER.key_with_rules(&ACME.tenant, rules))
            .idempotency_key(key);
        ask.json(&conversion_body(&created())).send().expect_status(201).get("data").cloned()
    };
    assert_eq!(shown(vec![create.clone()], "a"), None);
    assert_eq!(shown(vec![create.clone(), read(Transform::Redact)], "b"), None);
    let masked = json!({"number": "XXXXXXXXXXXX4242"});
    assert_eq!(shown(vec![create.clone(), read(Transform::Mask)], "c"), Some(masked));
    assert_eq!(shown(vec![create, read(Transform::Reveal)], "d"), Some(json!({"number": number})));
}
