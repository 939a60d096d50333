//! Test Webhook: the delivery of an event without a meaning.

use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use super::{deliveries::DeliveryHarness, webhook_body, webhook_path};
use crate::harness::server::{TestResponse, text_field};

impl DeliveryHarness {
    fn test_webhook(&self, idempotency_key: Option<&str>) -> TestResponse {
        let request = self.server.request("POST", &self.path("test")).key(&self.keys.management);
        match idempotency_key {
            Some(key) => request.idempotency_key(key).send(),
            None => request.send(),
        }
    }
}

#[test]
fn test_event_is_stored_for_its_webhook_only() {
    let harness = DeliveryHarness::new();
    let other = harness.create_webhook(&harness.keys);
    let delivery = harness.test_webhook(None).expect_status(202);
    assert_members(&delivery, &json!({"event_type": "webhook.test", "status": "pending"}));
    assert_eq!(delivery["attempts"], 0);
    assert_eq!(harness.deliveries(), std::slice::from_ref(&delivery));
    let path = format!("{}/deliveries", webhook_path(&other));
    let listed = harness.server.get_path(&harness.keys.management, &path).expect_status(200);
    assert_eq!(listed["data"], json!([]));
    assert_eq!(harness.deliver(), 1);
    assert_eq!(harness.statuses(), ["delivered"]);

    let repeated = harness.test_webhook(None).expect_status(202);
    assert_ne!(repeated["event_id"], delivery["event_id"]);
    let keyed = harness.test_webhook(Some("test-once")).expect_status(202);
    assert_eq!(harness.test_webhook(Some("test-once")).expect_status(202), keyed);
    assert_eq!(harness.deliveries().len(), 3);
    let records = harness.server.engine.select(
        "SELECT entity FROM log_records WHERE operation = 'test_webhook' AND outcome = 'done'",
    );
    assert_eq!(records, vec![vec![text_field(&harness.webhook, "id")]; 3]);
}

#[test]
fn disabled_webhook_gets_no_test_event() {
    let harness = DeliveryHarness::new();
    let (server, key) = (&harness.server, &harness.keys.management);
    let path = webhook_path(&harness.webhook);
    let disable = webhook_body(&json!({"status": "disabled"}));
    server.put(key, &path, &disable).expect_status(200);
    let response = harness.test_webhook(None);
    response.expect_invalid("status");
    assert!(response.text.contains("is disabled"), "{}", response.text);
    assert_eq!(harness.deliveries(), [Value::Null; 0]);
    server.put(key, &path, &webhook_body(&json!({"status": "enabled"}))).expect_status(200);
    harness.test_webhook(None).expect_status(202);
}
