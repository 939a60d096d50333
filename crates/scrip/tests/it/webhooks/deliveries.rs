//! List Webhook Deliveries: attributes, pages with a cursor, and rights.

use std::time::Duration;

use scrip_core::{
    events::{AttemptResult, DeliveryChange, WebhookKey},
    store::deliveries::DeliveryClaim,
    types::id::WebhookId,
};
use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use super::webhook_path;
use crate::{
    harness::server::{TenantApiKeys, TestResponse, TestServer, text_field},
    webhooks::{create_webhook_on, expect_pages},
};

/// A server that sends nothing: the tests decide the outcome of each attempt.
pub(super) struct DeliveryHarness {
    pub(super) server: TestServer,
    pub(super) keys: TenantApiKeys,
    pub(super) webhook: Value,
}

impl DeliveryHarness {
    pub(super) fn new() -> Self {
        let server = TestServer::start_with(|setup| setup.node.delivers_webhooks = false);
        let keys = server.create_default_tenant();
        let webhook = create_webhook_on(&server, &keys, &json!({}));
        Self { server, keys, webhook }
    }

    /// Another webhook of the same tenant, with the same events.
    pub(super) fn create_webhook(&self, keys: &TenantApiKeys) -> Value {
        create_webhook_on(&self.server, keys, &json!({}))
    }

    /// Creates tokens, one second after the other. Each raises one event.
    pub(super) fn raise_events(&self, count: usize) {
        for _ in 0..count {
            self.server.clock.advance(Duration::from_secs(1));
            self.server.create_token_ok(&self.keys.private, &json!({"type": "token", "data": 1}));
        }
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", webhook_path(&self.webhook))
    }

    pub(super) fn try_list(&self, query: &str) -> TestResponse {
        let path = self.path(&format!("deliveries{query}"));
        self.server.get_path(&self.keys.management, &path)
    }

    #[track_caller]
    pub(super) fn list(&self, query: &str) -> Value {
        self.try_list(query).expect_status(200)
    }

    /// The deliveries of the first page.
    #[track_caller]
    pub(super) fn deliveries(&self) -> Vec<Value> {
        self.list("")["data"].as_array().unwrap().clone()
    }

    #[track_caller]
    pub(super) fn statuses(&self) -> Vec<String> {
        self.deliveries().iter().map(|it| text_field(it, "status")).collect()
    }

    /// Claims all due deliveries of a webhook, and stores this outcome of the attempts. Returns
    /// their number.
    pub(super) fn attempt(
        &self,
        webhook: &Value,
        change: DeliveryChange,
        status: Option<u16>,
        error: Option<&str>,
    ) -> usize {
        let now = self.server.app.vault.clock.now();
        let id = WebhookId::parse(&text_field(webhook, "id")).unwrap();
        let key = WebhookKey { tenant: self.keys.tenant.id, webhook: id };
        let lease_until = now.plus(Duration::from_secs(30));
        let claim = DeliveryClaim { now, lease_until, deliveries_max: 10_000 };
        let store = &self.server.app.vault.store;
        self.server.runtime.block_on(async {
            let claimed = store.claim_deliveries(key, claim).await.unwrap();
            let result = |it: &scrip_core::events::ClaimedDelivery| AttemptResult {
                event: it.event,
                attempts: it.progress.attempts,
                change,
                at: now,
                status,
                error: error.map(str::to_owned),
            };
            let results = claimed.iter().map(result).collect();
            store.finish_deliveries(key, results).await.unwrap()
        })
    }

    pub(super) fn deliver(&self) -> usize {
        self.attempt(&self.webhook, DeliveryChange::Deliver, Some(204), None)
    }
}

#[test]
fn delivery_shows_its_attempts_but_neither_event_nor_url() {
    let harness = DeliveryHarness::new();
    assert_eq!(harness.deliveries(), [Value::Null; 0]);
    harness.raise_events(1);
    let pending = harness.deliveries().remove(0);
    let timestamp = harness.server.app.vault.clock.now().to_string();
    let expected = json!({"event_type": "token.created", "status": "pending", "attempts": 0,
        "last_attempt_at": null, "last_status_code": null, "last_error": null});
    assert_members(&pending, &expected);
    assert_eq!(pending["timestamp"].as_str().map(str::len), Some(timestamp.len()));
    assert!(pending["next_attempt_at"].is_string(), "{pending}");
    assert_eq!(pending.as_object().unwrap().len(), 9, "{pending}");

    harness.server.clock.advance(Duration::from_secs(1));
    let retry_at = harness.server.app.vault.clock.now().plus(Duration::from_secs(300));
    let retry = DeliveryChange::RetryAt(retry_at);
    assert_eq!(harness.attempt(&harness.webhook, retry, Some(503), None), 1);
    let failed = harness.deliveries().remove(0);
    let expected = json!({"status": "pending", "attempts": 1, "last_status_code": 503,
        "next_attempt_at": retry_at.to_string()});
    assert_members(&failed, &expected);
    assert!(failed["last_attempt_at"].is_string(), "{failed}");

    harness.server.clock.advance(Duration::from_secs(301));
    let exhaust = DeliveryChange::Exhaust;
    assert_eq!(harness.attempt(&harness.webhook, exhaust, None, Some("connect")), 1);
    let exhausted = harness.deliveries().remove(0);
    let expected = json!({"status": "exhausted", "next_attempt_at": null, "attempts": 2,
        "last_error": "connect", "event_id": pending["event_id"]});
    assert_members(&exhausted, &expected);
}

#[test]
fn deliveries_are_listed_newest_first_in_pages_with_a_cursor_of_their_webhook() {
    let harness = DeliveryHarness::new();
    let other = harness.create_webhook(&harness.keys);
    harness.raise_events(5);
    let listed = harness.deliveries();
    assert_eq!(listed.len(), 5);
    let times: Vec<_> = listed.iter().map(|it| text_field(it, "timestamp")).collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    assert_eq!(harness.list("")["pagination"], json!({"page_size": 20, "next": null}));
    expect_pages(|query| harness.list(query), &listed);
    let next = text_field(&harness.list("?size=2")["pagination"], "next");
    // A new event does not move the page.
    harness.raise_events(1);
    assert_eq!(harness.list(&format!("?start={next}"))["data"][0], listed[2]);

    let server = &harness.server;
    let key = &harness.keys.management;
    let foreign_lists = [
        format!("{}/deliveries?start={next}", webhook_path(&other)),
        format!("/webhooks?start={next}"),
        format!("/logs?start={next}"),
    ];
    for path in foreign_lists {
        server.get_path(key, &path).expect_invalid("start");
    }
    let webhooks = server.get_path(key, "/webhooks?size=1").expect_status(200);
    let start = text_field(&webhooks["pagination"], "next");
    harness.try_list(&format!("?start={start}")).expect_invalid("start");
    for (query, parameter) in
        [("start=x", "start"), ("size=0", "size"), ("size=101", "size"), ("page=1", "page")]
    {
        harness.try_list(&format!("?{query}")).expect_invalid(parameter);
    }
}
