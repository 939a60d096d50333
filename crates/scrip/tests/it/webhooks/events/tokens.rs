//! Events of tokens and token intents.

use std::{collections::BTreeSet, time::Duration};

use scrip_core::{
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    policy::{DeduplicationBehavior, Quotas},
    types::{EventType, time::Clock},
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::{
    harness::server::{SERVER, TestServer, card_body, text_field, unique_card_number},
    webhooks::{
        create_webhook_on,
        events::{Subscription, deduplicating, pick, subscribe, vault_actor},
    },
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const TOKEN_ATTRIBUTES: [&str; 12] = [
    "id",
    "type",
    "metadata",
    "containers",
    "fingerprint",
    "fingerprint_expression",
    "search_indexes",
    "created_by",
    "created_at",
    "modified_by",
    "modified_at",
    "expires_at",
];

fn card_with_metadata() -> Value {
    with_members(card_body(&unique_card_number()), &json!({"metadata": {"order": "7"}}))
}

#[test]
fn created_token_has_one_event() {
    let subscription = subscribe(EventType::TokenCreated);
    let key = &subscription.keys.private;
    let response = SERVER.create_token(key, &card_with_metadata());
    let expected = pick(&response.expect_status(201), &TOKEN_ATTRIBUTES);
    assert_eq!(expected["metadata"], json!({"order": "7"}));
    assert_eq!(subscription.expect_one_of(key, &response), json!({"token": expected}));
}

#[test]
fn tokenize_raises_one_event_per_new_token() {
    let settings = deduplicating(DeduplicationBehavior::ReadExisting);
    let subscription = Subscription::with_settings(&SERVER, EventType::TokenCreated, settings);
    let (first, second) = (card_with_metadata(), card_with_metadata());
    let body = json!({"a": first, "b": second, "c": first});
    let response = SERVER.post(&subscription.keys.private, "/tokenize", &body);
    let body = response.expect_status(200);
    assert_eq!(body["a"]["id"], body["c"]["id"]);
    let created: BTreeSet<_> =
        subscription.events().iter().map(|it| text_field(&it["data"]["token"], "id")).collect();
    assert_eq!(created, BTreeSet::from(["a", "b"].map(|it| text_field(&body[it], "id"))));
    assert_eq!(subscription.events().len(), 2);
}

#[test]
fn existing_token_instead_of_a_new_one_has_no_event() {
    for event_type in [EventType::TokenCreated, EventType::TokenUpdated] {
        let settings = deduplicating(DeduplicationBehavior::ReadExisting);
        let subscription = Subscription::with_settings(&SERVER, event_type, settings);
        let (key, body) = (&subscription.keys.private, card_with_metadata());
        let first = SERVER.create_token(key, &body).expect_status(201);
        let before = subscription.events();
        let second = SERVER.create_token(key, &body).expect_status(201);
        assert_eq!(first["id"], second["id"]);
        assert_eq!(subscription.events(), before);
    }
}

#[test]
fn update_of_an_existing_token_by_a_create_request_is_an_update() {
    let settings = deduplicating(DeduplicationBehavior::UpdateExisting);
    let subscription = Subscription::with_settings(&SERVER, EventType::TokenUpdated, settings);
    let (key, mut body) = (&subscription.keys.private, card_with_metadata());
    SERVER.create_token(key, &body).expect_status(201);
    subscription.expect_none();
    body["metadata"] = json!({"order": "8"});
    let response = SERVER.create_token(key, &body);
    let expected = pick(&response.expect_status(201), &TOKEN_ATTRIBUTES);
    assert!(expected["modified_at"].is_string());
    assert_eq!(subscription.expect_one_of(key, &response), json!({"token": expected}));
}

#[test]
fn update_that_finds_an_equal_token_has_no_event() {
    let settings = deduplicating(DeduplicationBehavior::ReadExisting);
    let subscription = Subscription::with_settings(&SERVER, EventType::TokenUpdated, settings);
    let (key, number) = (&subscription.keys.private, unique_card_number());
    let first = SERVER.create_token_ok(key, &card_body(&number));
    let second = SERVER.create_token_ok(key, &card_body(&unique_card_number()));
    let patch = json!({"data": {"number": number}, "deduplicate_token": true});
    let patched = SERVER.patch_token(key, &text_field(&second, "id"), &patch);
    assert_eq!(patched.expect_status(200)["id"], first["id"]);
    subscription.expect_none();
}

#[test]
fn updated_token_has_one_event() {
    let subscription = subscribe(EventType::TokenUpdated);
    let key = &subscription.keys.private;
    let token = SERVER.create_token_ok(key, &card_with_metadata());
    let patch = json!({"metadata": {"order": "8"}});
    let response = SERVER.patch_token(key, &text_field(&token, "id"), &patch);
    let expected = pick(&response.expect_status(200), &TOKEN_ATTRIBUTES);
    assert!(expected["modified_at"].is_string());
    assert_eq!(subscription.expect_one_of(key, &response), json!({"token": expected}));
}

#[test]
fn deleted_token_has_one_event() {
    let subscription = subscribe(EventType::TokenDeleted);
    let key = &subscription.keys.private;
    let id = SERVER.create_token_id(key, &card_with_metadata());
    let response = SERVER.delete(key, &format!("/tokens/{id}"));
    response.expect_status(204);
    assert_eq!(subscription.expect_one_of(key, &response), json!({"token": {"id": id}}));
    SERVER.delete(key, &format!("/tokens/{id}")).expect_status(404);
    subscription.expect_one();
}

#[test]
fn replayed_and_rejected_writes_have_no_event() {
    let subscription = subscribe(EventType::TokenCreated);
    let key = &subscription.keys.private;
    let body = json!({"id": "taken", "type": "token", "data": 1});
    for (idempotency_key, status) in [("first", 201), ("first", 201), ("second", 409)] {
        SERVER.post_once(key, "/tokens", idempotency_key, &body).expect_status(status);
    }
    SERVER.create_token(key, &body).expect_status(409);
    let batch = json!({
        "a": {"id": "taken", "type": "token", "data": 1},
        "b": {"id": "free", "type": "token", "data": 1},
    });
    SERVER.post(key, "/tokenize", &batch).expect_status(409);
    subscription.expect_one();
}

#[test]
fn expired_token_has_one_event_when_it_is_deleted() {
    let server = TestServer::start();
    let subscription = Subscription::new(&server, EventType::TokenExpired);
    let key = &subscription.keys.private;
    let expires_at = server.clock.now().plus(HOUR).to_string();
    let body = json!({"id": "brief", "type": "token", "data": 1, "expires_at": expires_at});
    server.create_token_ok(key, &body);
    server.clock.advance(HOUR);
    let directory = server.app.directory.load_full().unwrap();
    for _ in 0..2 {
        server.runtime.block_on(expire_token(&server.app.vault, &directory)).unwrap();
    }
    let data = subscription.expect_one_without_request(&vault_actor());
    assert_eq!(data, json!({"token": {"id": "brief"}}));
}

/// A new token with the id of an expired one replaces it before the sweep does.
#[test]
fn expired_token_has_one_event_when_its_id_is_used_again() {
    let server = TestServer::start();
    let subscription = Subscription::new(&server, EventType::TokenExpired);
    let key = &subscription.keys.private;
    let create = |expires_at: &Value| {
        let body = json!({"id": "brief", "type": "token", "data": 1, "expires_at": expires_at});
        server.create_token_ok(key, &body);
    };
    create(&server.clock.now().plus(HOUR).to_string().into());
    server.clock.advance(HOUR);
    create(&Value::Null);
    let directory = server.app.directory.load_full().unwrap();
    server.runtime.block_on(expire_token(&server.app.vault, &directory)).unwrap();
    let data = subscription.expect_one_without_request(&vault_actor());
    assert_eq!(data, json!({"token": {"id": "brief"}}));
}

#[test]
fn erased_cvc_has_one_event() {
    let server = TestServer::start();
    let subscription = Subscription::new(&server, EventType::TokenPropertyExpired);
    let key = &subscription.keys.private;
    let id = server.create_token_id(key, &card_body(&unique_card_number()));
    server.clock.advance(HOUR + HOUR / 4);
    let directory = server.app.directory.load_full().unwrap();
    for _ in 0..2 {
        server.runtime.block_on(erase_cvcs(&server.app.vault, &directory)).unwrap();
    }
    let data = subscription.expect_one_without_request(&vault_actor());
    assert_eq!(data, json!({"token": {"id": id, "property_name": "cvc"}}));
}

#[test]
fn created_intent_has_one_event() {
    let subscription = subscribe(EventType::TokenIntentCreated);
    let key = &subscription.keys.private;
    let response = SERVER.post(key, "/token-intents", &card_body(&unique_card_number()));
    let names = ["id", "type", "fingerprint", "created_by", "created_at", "expires_at"];
    let expected = pick(&response.expect_status(201), &names);
    assert_eq!(expected.as_object().unwrap().len(), names.len());
    assert_eq!(subscription.expect_one_of(key, &response), json!({"token_intent": expected}));
}

#[test]
fn deleted_intent_has_one_event() {
    let subscription = subscribe(EventType::TokenIntentDeleted);
    let key = &subscription.keys.private;
    let path = format!("/token-intents/{}", SERVER.create_card_intent(&subscription.keys));
    let response = SERVER.delete(key, &path);
    response.expect_status(204);
    SERVER.delete(key, &path).expect_status(404);
    let id = path.rsplit('/').next();
    assert_eq!(subscription.expect_one_of(key, &response), json!({"token_intent": {"id": id}}));
}

#[test]
fn converted_intent_has_one_event() {
    let subscription = subscribe(EventType::TokenIntentConverted);
    let key = &subscription.keys.private;
    let intent = SERVER.create_card_intent(&subscription.keys);
    let body = json!({"token_intent_id": intent});
    let response = SERVER.create_token(key, &body);
    let token = response.expect_status(201);
    let expected = json!({
        "token_intent": {"id": intent, "type": "card"},
        "token": {"id": token["id"], "type": "card"},
    });
    assert_eq!(subscription.expect_one_of(key, &response), expected);
    assert!(SERVER.create_token(key, &body).status >= 400);
    subscription.expect_one();
}

/// The event names the token that the intent became: the existing one.
#[test]
fn intent_that_becomes_an_existing_token_has_one_event() {
    let settings = deduplicating(DeduplicationBehavior::ReadExisting);
    let subscription =
        Subscription::with_settings(&SERVER, EventType::TokenIntentConverted, settings);
    let (key, card) = (&subscription.keys.private, card_body(&unique_card_number()));
    let existing = SERVER.create_token_ok(key, &card);
    let intent = SERVER.post(key, "/token-intents", &card).expect_status(201);
    let body = json!({"token_intent_id": intent["id"]});
    let response = SERVER.create_token(key, &body);
    assert_eq!(response.expect_status(201)["id"], existing["id"]);
    let expected = json!({
        "token_intent": {"id": intent["id"], "type": "card"},
        "token": {"id": existing["id"], "type": "card"},
    });
    assert_eq!(subscription.expect_one_of(key, &response), expected);
}

/// Every webhook gets a copy of the metadata, in the transaction of all tokens.
#[test]
fn tokenize_request_with_more_than_4_mib_of_deliveries_is_rejected_as_a_whole() {
    let keys = SERVER.create_default_tenant();
    SERVER.set_quotas(&keys.tenant, |quotas| Quotas {
        webhook_limit: 10,
        tokenize_limit: 30,
        ..quotas
    });
    for _ in 0..10 {
        create_webhook_on(&SERVER, &keys, &json!({}));
    }
    let tokenize = |count: usize| {
        let metadata = json!({"note": "x".repeat(16_000)});
        let token = json!({"type": "token", "data": "1", "metadata": metadata});
        SERVER.post(&keys.private, "/tokenize", &json!(vec![token; count]))
    };
    tokenize(20).expect_status(200);
    let tokens = SERVER.count_rows(&keys.tenant, "tokens");
    assert_eq!(tokens, 20);
    let errors = tokenize(30).expect_status(400)["errors"].clone();
    let rule = errors["tokens"][0].as_str().unwrap_or_default().to_owned();
    assert!(rule.contains("at most 4 MiB of webhook deliveries"), "{errors}");
    assert_eq!(SERVER.count_rows(&keys.tenant, "tokens"), 20);
    assert_eq!(SERVER.count_rows(&keys.tenant, "deliveries"), 200);
}
