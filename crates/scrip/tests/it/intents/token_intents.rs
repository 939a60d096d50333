//! Token intents: created, read, deleted, converted, and gone by themselves.

use std::{sync::Barrier, thread, time::Duration};

use scrip_core::policy::{ApplicationKind, DeduplicationBehavior, Permission, Settings, Transform};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, SHARED, Server, card, grant, new_number, text};

fn intend(server: &Server, key: &str, body: &Value) -> Value {
    server.post(key, "/token-intents", body).is(201)
}

fn convert(intent: &Value) -> Value {
    json!({"token_intent_id": intent["id"]})
}

#[test]
fn an_intent_shows_its_card_and_never_its_data() {
    let number = new_number();
    let body = json!({"type": "card", "data":
        {"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"}});
    let made = intend(&SHARED, &ACME.public, &body);
    let names: Vec<_> = made.as_object().unwrap().keys().cloned().collect();
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
    assert_eq!(made["card"]["last4"], number[12..]);
    assert_eq!(made["card"]["expiration_month"], 7);
    let path = format!("/token-intents/{}", text(&made, "id"));
    let found = SHARED.fetch(&ACME.private, &format!("{path}/"));
    assert_eq!(found.is(200), made);
    assert!(!found.text.contains(&number) && !found.text.contains("123\""));
    // Its fingerprint is the one that a token of it has.
    let token = SHARED.created(&ACME.private, &card(&number));
    assert_eq!(token["fingerprint"], made["fingerprint"]);
    SHARED.remove(&ACME.private, &path).is(204);
    SHARED.fetch(&ACME.private, &path).refused(404, "no such thing");
    SHARED.remove(&ACME.private, &path).refused(404, "no such thing");
    let gone = SHARED.create(&ACME.private, &convert(&made));
    gone.invalid("token_intent_id");
}

#[test]
fn every_type_can_be_intended() {
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
        let made = intend(&SHARED, &ACME.private, &body);
        for name in ["bank", "card", "network_token"] {
            assert_eq!(made.get(name).is_some(), detail == Some(name), "{made}");
        }
        assert_eq!(made.get("authentication"), body.get("authentication"));
        let token = SHARED.created(&ACME.private, &convert(&made));
        assert_eq!((&token["type"], &token["data"]), (&body["type"], &body["data"]));
        assert_eq!(token["fingerprint"], made["fingerprint"]);
    }
}

#[test]
fn bad_intents() {
    let refused = |body: Value, attribute: &str| {
        SHARED.post(&ACME.private, "/token-intents", &body).invalid(attribute);
    };
    refused(json!({"data": 1}), "type");
    refused(json!({"type": "robot", "data": 1}), "type");
    refused(json!({"type": "card"}), "data");
    refused(json!({"type": "card", "data": {"number": "4242424242424241"}}), "data.number");
    refused(
        json!({"type": "token", "data": 1, "authentication": {"eci_indicator": "05"}}),
        "authentication",
    );
    refused(
        json!({"type": "network_token", "data": {"number": "4242424242424242"}, "authentication": {"eci_indicator": 5}}),
        "authentication",
    );
    let both = json!({"token_intent_id": "x", "type": "token", "data": 1});
    SHARED.create(&ACME.private, &both).invalid("token_intent_id");
    SHARED
        .create(&ACME.private, &json!({"token_intent_id": "nonsense"}))
        .invalid("token_intent_id");
    assert_eq!(SHARED.fetch(&ACME.private, "/token-intents/nonsense").status, 404);
}

#[test]
fn a_conversion_leaves_the_code_behind_and_takes_every_other_attribute() {
    let number = new_number();
    let body = json!({"type": "card", "data": {"number": number, "cvc": "737"}});
    let made = intend(&SHARED, &ACME.public, &body);
    let token = SHARED.created(&ACME.private, &json!({
        "token_intent_id": made["id"], "id": format!("of-{}", text(&made, "id")),
        "containers": ["/converted/"], "metadata": {"who": "me"}, "expires_at": "2090-01-01T00:00:00Z",
        "search_indexes": ["{{ data.number }}"], "mask": {"n": "{{ data.number | last4 }}"},
    }));
    assert_eq!(token["data"], json!({"number": number}));
    assert_eq!(token["containers"], json!(["/converted/"]));
    let query = json!({"query": format!("data:{number}")});
    let found = SHARED.post(&ACME.private, "/v2/tokens/search", &query).is(200);
    assert_eq!(found["data"][0]["id"], token["id"]);
    let path = format!("/token-intents/{}", text(&made, "id"));
    assert_eq!(SHARED.fetch(&ACME.private, &path).status, 404);
}

#[test]
fn one_of_a_hundred_conversions_succeeds() {
    let made =
        intend(&SHARED, &ACME.private, &json!({"type": "card", "data": {"number": new_number()}}));
    let body = convert(&made);
    let barrier = Barrier::new(100);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let one = |_| {
            scope.spawn(|| {
                barrier.wait();
                SHARED.create(&ACME.private, &body).status
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
            intend(
                &SHARED,
                &ACME.private,
                &json!({"type": "card", "data": {"number": new_number()}}),
            )
        })
        .collect();
    let body = json!({"a": convert(&intents[0]), "b": [convert(&intents[1]), {"type": "card", "data": {"number": "1"}}]});
    assert_eq!(SHARED.post(&ACME.private, "/tokenize", &body).status, 400);
    let twice = json!([convert(&intents[0]), convert(&intents[0])]);
    assert_eq!(SHARED.post(&ACME.private, "/tokenize", &twice).status, 400);
    for intent in &intents {
        let path = format!("/token-intents/{}", text(intent, "id"));
        assert_eq!(SHARED.fetch(&ACME.private, &path).status, 200);
    }
    let body = json!({"a": convert(&intents[0]), "b": [convert(&intents[1]), "leaf"]});
    let made = SHARED.post(&ACME.private, "/tokenize", &body).is(200);
    assert_eq!(made["a"]["type"], "card");
    assert_eq!(made["b"][0]["fingerprint"], intents[1]["fingerprint"]);
    let unknown = json!({"deep": [convert(&intents[0])]});
    SHARED.post(&ACME.private, "/tokenize", &unknown).invalid("deep[0].token_intent_id");
}

/// A tenant that deduplicates, and reads what is there for other creates.
fn deduplicating() -> (Server, Keys) {
    let server = Server::start();
    let settings = Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::ReadExisting,
        ..Settings::default()
    };
    let keys = server.tenant(settings);
    (server, keys)
}

#[test]
fn a_conversion_updates_what_is_there() {
    let (server, keys) = deduplicating();
    let number = new_number();
    let data = |year: u32| json!({"number": number, "expiration_year": year, "cvc": "123"});
    let first = server.created(&keys.private, &json!({"type": "card", "data": data(2030)}));
    let made = intend(&server, &keys.public, &json!({"type": "card", "data": data(2035)}));
    let body = json!({"token_intent_id": made["id"], "metadata": {"new": "yes"}});
    let token = server.created(&keys.private, &body);
    assert_eq!(token["id"], first["id"]);
    assert_eq!(token["data"]["expiration_year"], 2035);
    assert_eq!(token["metadata"], json!({"new": "yes"}));
    let extras = json!({"deduplicated": true, "deduplication_behavior": "update_existing"});
    assert_eq!(token["_extras"], extras);
    assert_eq!(
        server.fetch(&keys.private, &format!("/token-intents/{}", text(&made, "id"))).status,
        404
    );

    // Without the permission to update, it is read.
    let may = &[Permission::TokenCreate, Permission::TokenRead, Permission::TokenIntentCreate];
    let key = server.permissions(&keys.tenant, ApplicationKind::Private, may);
    let made = intend(&server, &key, &json!({"type": "card", "data": data(2040)}));
    let token = server.created(&key, &convert(&made));
    assert_eq!(token["_extras"]["deduplication_behavior"], "read_existing");
    assert_eq!(
        server.get(&keys.private, &text(&first, "id")).json()["data"]["expiration_year"],
        2035
    );
    assert_eq!(
        server.fetch(&keys.private, &format!("/token-intents/{}", text(&made, "id"))).status,
        404
    );
}

#[test]
fn an_intent_ends_with_its_retention_and_its_code_before() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let made = intend(&server, &keys.private, &body);
    let path = format!("/token-intents/{}", text(&made, "id"));
    let ask =
        json!({"d": format!("{{{{ token_intent: {} | json: '$.data' }}}}", text(&made, "id"))});
    let seen = |key: &str| server.post(key, "/detokenize", &ask);
    assert_eq!(seen(&keys.private).is(200)["d"]["cvc"], "123");
    server.clock.advance(Duration::from_secs(3600));
    assert_eq!(seen(&keys.private).is(200)["d"], json!({"number": "4242424242424242"}));
    server.clock.advance(Duration::from_secs(23 * 3600 - 1));
    assert_eq!(server.fetch(&keys.private, &path).status, 200);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.fetch(&keys.private, &path).status, 404);
    assert_eq!(server.remove(&keys.private, &path).status, 404);
    assert_eq!(seen(&keys.private).status, 400);
    server.create(&keys.private, &convert(&made)).invalid("token_intent_id");
}

#[test]
fn expressions_see_an_intent_under_the_transform() {
    let made = intend(
        &SHARED,
        &ACME.private,
        &json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}}),
    );
    let id = text(&made, "id");
    let ask = json!({
        "number": format!("{{{{ token_intent: {id} | json: '$.data.number' }}}}"),
        "cvc": format!("{{{{ token_intent: {id} | json: '$.data.cvc' }}}}"),
        "last4": format!("{{{{ token_intent: {id} | json: '$.card.last4' }}}}"),
    });
    let seen = |key: &str| SHARED.post(key, "/detokenize", &ask);
    assert_eq!(
        seen(&ACME.private).is(200),
        json!({"number": "4242424242424242", "cvc": "123", "last4": "4242"})
    );
    let both = &[Permission::TokenRead, Permission::TokenIntentRead];
    let masked = SHARED.permissions(&ACME.tenant, ApplicationKind::Private, both);
    assert_eq!(
        seen(&masked).is(200),
        json!({"number": "XXXXXXXXXXXX4242", "cvc": null, "last4": "4242"})
    );
    let one = SHARED.permissions(&ACME.tenant, ApplicationKind::Private, &[Permission::TokenRead]);
    seen(&one).refused(403, "token-intent:read");
    let elsewhere = vec![grant("/general/", Transform::Reveal, both)];
    seen(&SHARED.rules(&ACME.tenant, elsewhere)).refused(403, "token:read");
    let theirs = SHARED.tenant(Settings::default());
    assert_eq!(seen(&theirs.private).status, 400);
}

/// Whoever may not see the data gives no expression that would tell of it, nor learns by refusals.
#[test]
fn a_blind_conversion_tells_nothing() {
    let may = &[Permission::TokenCreate, Permission::TokenRead, Permission::TokenIntentCreate];
    let blind = SHARED.permissions(&ACME.tenant, ApplicationKind::Private, may);
    let number = "4242424242424242";
    let card =
        || intend(&SHARED, &ACME.public, &json!({"type": "card", "data": {"number": number}}));
    let ssn = || {
        intend(
            &SHARED,
            &ACME.public,
            &json!({"type": "social_security_number", "data": "123-45-6789"}),
        )
    };
    let with = |intent: &Value, name: &str, value: Value| {
        let mut body = convert(intent);
        body[name] = value;
        SHARED.create(&blind, &body)
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
        with(intent, name, value).refused(403, name);
    }
    // The number itself, and one that only looks like it, are refused in the same words.
    let itself = with(&kept_card, "id", json!("x-4242424242424242"));
    let lookalike = with(&kept_card, "id", json!("x-4242 4242-0000.4242"));
    itself.invalid("id");
    assert_eq!(itself.without_trace(), lookalike.without_trace());
    // What tells no more than everybody sees is allowed.
    with(&card(), "search_indexes", json!(["{{ data.number | last4 }}"])).is(201);
    with(&card(), "fingerprint_expression", json!("{{ data.number }}")).is(201);

    with(&card(), "id", json!(format!("own-{}", uuid::Uuid::new_v4()))).is(201);
    with(&ssn(), "search_indexes", json!(["{{ data | last4 }}", "{{ data }}"])).is(201);
    with(&ssn(), "id", json!(format!("own-{}", uuid::Uuid::new_v4()))).is(201);
    // Whether an id holds a number that is no card's, nobody is told.
    with(&ssn(), "id", json!(format!("123-45-6789 {}", uuid::Uuid::new_v4()))).is(201);
    // A key that sees everything may say anything.
    let open = card();
    let body = json!({"token_intent_id": open["id"], "fingerprint_expression": "{{ data.number | slice: 6, 2 }}"});
    SHARED.created(&ACME.private, &body);
}

#[test]
fn a_repeated_request_makes_no_second_intent() {
    let ask = || {
        let body = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
        let ask = SHARED.ask("POST", "/token-intents").key(&ACME.public).once("intent-once");
        ask.json(&body).send().is(201)
    };
    assert_eq!(ask(), ask());
    let made = ask();
    let convert = || {
        let ask = SHARED.ask("POST", "/tokens").key(&ACME.private).once("convert-once");
        ask.json(&convert(&made)).send().is(201)
    };
    assert_eq!(convert(), convert());
}

/// A right to create shows what one brought. What somebody else brought, it does not.
#[test]
fn a_conversion_shows_what_the_right_to_read_shows() {
    let number = "4242424242424242";
    let made =
        || intend(&SHARED, &ACME.public, &json!({"type": "card", "data": {"number": number}}));
    let create = grant("/pci/", Transform::Reveal, &[Permission::TokenCreate]);
    let read = |transform| grant("/pci/", transform, &[Permission::TokenRead]);
    let shown = |rules, key: &str| {
        let ask = SHARED.ask("POST", "/tokens").key(&SHARED.rules(&ACME.tenant, rules)).once(key);
        ask.json(&convert(&made())).send().is(201).get("data").cloned()
    };
    assert_eq!(shown(vec![create.clone()], "a"), None);
    assert_eq!(shown(vec![create.clone(), read(Transform::Redact)], "b"), None);
    let masked = json!({"number": "XXXXXXXXXXXX4242"});
    assert_eq!(shown(vec![create.clone(), read(Transform::Mask)], "c"), Some(masked));
    assert_eq!(shown(vec![create, read(Transform::Reveal)], "d"), Some(json!({"number": number})));
}
