//! Events of reads: one per token that a response shows.

use std::sync::{Arc, Mutex};

use scrip_core::{
    audit::{AuditTrail, LogKind, ReadRecording},
    read_log::ReadLogBatch,
    store::Store,
    types::{EventType, Permission, StoreFuture, Transform},
};
use scrip_testing::{
    faults::intercepted_store::{InterceptedStore, Interceptor},
    requests::with_members,
};
use serde_json::{Value, json};

use crate::{
    harness::server::{
        SERVER, TestResponse, TestServer, card_body, grant, text_field, text_fields,
        unique_card_number,
    },
    webhooks::events::{Subscription, create_webhook},
};

fn create_card(subscription: &Subscription<'_>) -> String {
    let (server, key) = (subscription.server, &subscription.keys.private);
    let metadata = json!({"metadata": {"order": "7"}});
    let body = with_members(card_body(&unique_card_number()), &metadata);
    server.create_token_id(key, &body)
}

/// The ids of the tokens in events, sorted.
fn read_ids(events: &[Value]) -> Vec<String> {
    let mut ids: Vec<_> = events.iter().map(|it| text_field(&it["data"]["token"], "id")).collect();
    ids.sort_unstable();
    ids
}

fn sorted(ids: [&String; 2]) -> Vec<String> {
    let mut ids = ids.map(String::clone).to_vec();
    ids.sort_unstable();
    ids
}

#[test]
fn read_token_has_one_event() {
    let subscription = Subscription::new(&SERVER, EventType::TokenRead);
    let (key, id) = (&subscription.keys.private, create_card(&subscription));
    subscription.expect_none();
    let response = SERVER.get_token(key, &id);
    response.expect_status(200);
    let expected = json!({"token": {"id": id, "type": "card"}});
    assert_eq!(subscription.expect_one_of(key, &response), expected);
}

/// The event has no data, so it does not say how much of the token a caller saw.
#[test]
fn event_of_a_masked_read_equals_that_of_a_clear_one() {
    let subscription = Subscription::new(&SERVER, EventType::TokenRead);
    let id = create_card(&subscription);
    for transform in [Transform::Redact, Transform::Mask, Transform::Reveal] {
        let key = SERVER.key_with_rule(
            &subscription.keys.tenant,
            "/",
            transform,
            &[Permission::TokenRead],
        );
        SERVER.get_token(&key, &id).expect_status(200);
    }
    let events = subscription.events();
    assert_eq!(events.len(), 3);
    for event in events {
        assert_eq!(event["data"]["token"], json!({"id": id, "type": "card"}));
        assert_eq!(event["data"].as_object().unwrap().len(), 2);
    }
}

#[test]
fn detokenized_tokens_have_one_event_each() {
    let subscription = Subscription::new(&SERVER, EventType::TokenRead);
    let (first, second) = (create_card(&subscription), create_card(&subscription));
    let body = json!([
        format!("{{{{ {first} | json: '$.number' }}}}"),
        format!("{{{{ {first} | json: '$.cvc' }}}}"),
        format!("{{{{ {second} }}}}"),
    ]);
    let response = SERVER.post(&subscription.keys.private, "/detokenize", &body);
    response.expect_status(200);
    let events = subscription.events();
    assert_eq!(read_ids(&events), sorted([&first, &second]));
    assert!(events.iter().all(|it| it["trace_id"] == response.headers["bt-trace-id"]));
}

/// Sends a request with an API key.
type SendRead = Box<dyn Fn(&str) -> TestResponse>;

/// All kinds of lists and searches.
#[test]
fn listed_and_found_tokens_have_one_event_each() {
    let search = |path: &'static str, body: Value| move |key: &str| SERVER.post(key, path, &body);
    let list = |path: &'static str| move |key: &str| SERVER.get_path(key, path);
    let requests: [SendRead; 4] = [
        Box::new(list("/tokens?size=2")),
        Box::new(list("/v2/tokens?size=2")),
        Box::new(search("/tokens/search", json!({"query": "metadata.order:7", "size": 2}))),
        Box::new(search("/v2/tokens/search", json!({"query": "metadata.order:7", "size": 2}))),
    ];
    for request in requests {
        let subscription = Subscription::new(&SERVER, EventType::TokenRead);
        let ids: Vec<_> = (0..3).map(|_| create_card(&subscription)).collect();
        let response = request(&subscription.keys.private);
        let mut shown = text_fields(&response.expect_status(200)["data"], "id");
        shown.sort_unstable();
        assert!(shown.len() == 2 && shown.iter().all(|it| ids.contains(it)), "{shown:?}");
        assert_eq!(read_ids(&subscription.events()), shown);
    }
}

/// The numbers of deliveries and of log entries of each transaction.
#[derive(Clone, Default)]
struct ReadLogSizes(Arc<Mutex<Vec<[usize; 2]>>>);

impl Interceptor for ReadLogSizes {
    fn append_read_log<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        batch: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        self.0.lock().unwrap().push([batch.deliveries.len(), batch.entries.len()]);
        engine.append_read_log(batch)
    }
}

/// A page has a delivery for each token and webhook, and other writes must not wait for all of them.
#[test]
fn deliveries_of_a_page_are_stored_in_small_transactions() {
    let sizes = ReadLogSizes::default();
    let server = TestServer::start_with(|setup| {
        let (engine, interceptor) = (Arc::clone(&setup.vault.store), sizes.clone());
        setup.vault.store = Arc::new(InterceptedStore { engine, interceptor });
    });
    let subscription = Subscription::new(&server, EventType::TokenRead);
    let (keys, tokens, webhooks) = (&subscription.keys, 60, 3);
    for _ in 1..webhooks {
        create_webhook(&server, keys, &json!({"events": ["token.read"]}));
    }
    let mut ids: Vec<_> = (0..tokens).map(|_| create_card(&subscription)).collect();
    ids.sort_unstable();
    sizes.0.lock().unwrap().clear();
    server.get_path(&keys.private, "/v2/tokens?size=100").expect_status(200);
    let sizes = sizes.0.lock().unwrap().clone();
    assert_eq!(sizes.iter().map(|it| it[0]).sum::<usize>(), tokens * webhooks, "{sizes:?}");
    assert!(sizes.iter().all(|it| it[0] <= 100), "{sizes:?}");
    assert_eq!(sizes.iter().map(|it| it[1]).sum::<usize>(), 1, "{sizes:?}");
    assert_eq!(read_ids(&subscription.events()), ids);
}

#[test]
fn rejected_and_empty_reads_have_no_event() {
    let subscription = Subscription::new(&SERVER, EventType::TokenRead);
    let (keys, id) = (&subscription.keys, create_card(&subscription));
    let other_rules = vec![grant("/other/", Transform::Reveal, &[Permission::TokenRead])];
    let other_key = SERVER.key_with_rules(&keys.tenant, other_rules);
    SERVER.get_token(&keys.private, "unknown").expect_status(404);
    SERVER.get_token(&keys.public, &id).expect_status(403);
    SERVER.get_token(&other_key, &id).expect_status(403);
    let body = json!([format!("{{{{ {id} }}}}")]);
    SERVER.post(&other_key, "/detokenize", &body).expect_status(403);
    SERVER.post(&keys.private, "/detokenize", &json!(["{{ unknown }}"]));
    assert_eq!(SERVER.get_path(&other_key, "/v2/tokens").json()["data"], json!([]));
    subscription.expect_none();
}

#[test]
fn replayed_response_with_token_data_has_no_event() {
    let subscription = Subscription::new(&SERVER, EventType::TokenRead);
    let body = card_body(&unique_card_number());
    for _ in 0..2 {
        let key = &subscription.keys.private;
        SERVER.post_once(key, "/tokens", "key", &body).expect_status(201);
    }
    subscription.expect_none();
}

/// A tenant that subscribes to reads does not depend on a setting of the server.
#[test]
fn reads_have_events_if_they_are_not_recorded() {
    let server = TestServer::start_with(|setup| {
        let trail = AuditTrail::new(ReadRecording::Off);
        trail.set_key(setup.vault.audit_trail.key().unwrap());
        setup.vault.audit_trail = Arc::new(trail);
    });
    let unsubscribed = server.create_default_tenant();
    let token = server.create_token_ok(&unsubscribed.private, &json!({"type": "token", "data": 1}));
    server.get_token(&unsubscribed.private, &text_field(&token, "id")).expect_status(200);
    let subscription = Subscription::new(&server, EventType::TokenRead);
    let (key, id) = (&subscription.keys.private, create_card(&subscription));
    let response = server.get_token(key, &id);
    response.expect_status(200);
    let expected = json!({"token": {"id": id, "type": "card"}});
    assert_eq!(subscription.expect_one_of(key, &response), expected);
    let sql = "SELECT count(*) FROM log_records WHERE operation = 'get_token'";
    assert_eq!(server.engine.select_from_log(LogKind::Read, sql), [["0"]]);
}
