//! Replay Webhook Deliveries: finished deliveries become pending again.

use std::time::Duration;

use scrip_core::events::DeliveryChange;
use serde_json::{Value, json};

use super::{deliveries::DeliveryHarness, webhook_body, webhook_path};
use crate::harness::server::{TestResponse, text_field};

impl DeliveryHarness {
    fn try_replay(&self, body: &Value) -> TestResponse {
        self.server.post(&self.keys.management, &self.path("replay"), body)
    }

    #[track_caller]
    fn replay(&self, from: &str) -> Value {
        self.try_replay(&json!({"from": from})).expect_status(202)
    }
}

const LONG_AGO: &str = "2020-01-01T00:00:00Z";

#[test]
fn finished_deliveries_since_a_time_become_pending_with_the_same_events() {
    let harness = DeliveryHarness::new();
    assert_eq!(harness.replay(LONG_AGO), json!({"replayed": 0}));
    harness.raise_events(2);
    assert_eq!(harness.deliver(), 2);
    harness.raise_events(1);
    let exhaust = DeliveryChange::Exhaust;
    assert_eq!(harness.attempt(&harness.webhook, exhaust, Some(500), None), 1);
    harness.raise_events(1);
    let before = harness.deliveries();
    assert_eq!(harness.statuses(), ["pending", "exhausted", "delivered", "delivered"]);

    // The second event and the exhausted one are not older than this time.
    let from = text_field(&before[2], "timestamp");
    assert_eq!(harness.replay(&from), json!({"replayed": 2}));
    assert_eq!(harness.statuses(), ["pending", "pending", "pending", "delivered"]);
    let after = harness.deliveries();
    for (before, after) in before.iter().zip(&after) {
        for name in ["event_id", "event_type", "timestamp"] {
            assert_eq!(before[name], after[name]);
        }
    }
    assert_eq!(after[1]["attempts"], 0);
    assert_eq!(harness.replay(LONG_AGO), json!({"replayed": 1}));
    assert_eq!(harness.replay(LONG_AGO), json!({"replayed": 0}));
    assert_eq!(harness.deliver(), 4);
    assert_eq!(harness.statuses(), ["delivered"; 4]);
}

/// A replay works in steps of 1,000.
#[test]
fn replay_of_several_steps_repeats_each_delivery_once_and_has_one_record() {
    let harness = DeliveryHarness::new();
    harness.server.allow_large_requests(&harness.keys.tenant);
    let token = json!({"type": "token", "data": 1});
    let tokens: Vec<_> = (0..100).map(|_| token.clone()).collect();
    for _ in 0..21 {
        let body = Value::Array(tokens.clone());
        harness.server.post(&harness.keys.private, "/tokenize", &body).expect_status(200);
        harness.server.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(harness.deliver(), 2100);
    assert_eq!(harness.replay(LONG_AGO), json!({"replayed": 2100}));
    assert_eq!(harness.deliver(), 2100);
    let sql = "SELECT entity, outcome FROM log_records WHERE operation = \
               'replay_webhook_deliveries'";
    let expected = vec![text_field(&harness.webhook, "id"), "done".to_owned()];
    assert_eq!(harness.server.engine.select(sql), [expected]);
}

#[test]
fn replay_changes_neither_another_webhook_nor_another_tenant() {
    let harness = DeliveryHarness::new();
    let server = &harness.server;
    let sibling = harness.create_webhook(&harness.keys);
    harness.raise_events(1);
    assert_eq!(harness.deliver(), 1);
    assert_eq!(harness.attempt(&sibling, DeliveryChange::Deliver, Some(200), None), 1);

    let other = server.create_default_tenant();
    let body = json!({"from": LONG_AGO});
    let response = server.post(&other.management, &harness.path("replay"), &body);
    response.expect_problem(404, "Not found.");
    assert_eq!(harness.statuses(), ["delivered"]);
    let path = format!("{}/replay", webhook_path(&sibling));
    let replayed = server.post(&harness.keys.management, &path, &body).expect_status(202);
    assert_eq!(replayed, json!({"replayed": 1}));
    assert_eq!(harness.statuses(), ["delivered"]);
}

#[test]
fn replay_needs_a_past_time_and_an_enabled_webhook() {
    let harness = DeliveryHarness::new();
    harness.raise_events(1);
    assert_eq!(harness.deliver(), 1);
    let future = harness.server.app.vault.clock.now().plus(Duration::from_secs(3600));
    for from in [json!(future.to_string()), json!("yesterday"), json!(""), json!(7), Value::Null] {
        harness.try_replay(&json!({ "from": from })).expect_invalid("from");
    }
    harness.try_replay(&json!({})).expect_invalid("from");
    harness.try_replay(&json!([])).expect_problem(400, "must be a JSON object");
    let request = harness.server.request("POST", &harness.path("replay"));
    let request = request.key(&harness.keys.management).body("text/plain", "x");
    request.send().expect_problem(415, "application/json");
    assert_eq!(harness.statuses(), ["delivered"]);
    // Unknown attributes are dropped, as in all requests.
    let body = json!({"from": LONG_AGO, "until": "2021-01-01"});
    assert_eq!(harness.try_replay(&body).expect_status(202), json!({"replayed": 1}));
    assert_eq!(harness.deliver(), 1);

    let disable = webhook_body(&json!({"status": "disabled"}));
    let path = webhook_path(&harness.webhook);
    harness.server.put(&harness.keys.management, &path, &disable).expect_status(200);
    let response = harness.try_replay(&json!({"from": LONG_AGO}));
    response.expect_invalid("status");
    assert!(response.text.contains("is disabled"), "{}", response.text);
    assert_eq!(harness.statuses(), ["delivered"]);
}
