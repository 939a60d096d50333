//! The sweep: deliveries that are too old, and those of deleted webhooks.

use std::time::Duration;

use scrip_testing::process::harness::becomes_true;

use super::{DelivererHarness, respond};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn deliveries_of_a_deleted_webhook_are_deleted() {
    let (harness, _host, webhook) = DelivererHarness::start_with_receiver(&[respond(200)]);
    harness.raise(3);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let path = format!("/webhooks/{}", webhook.id);
    assert_eq!(harness.server.delete(&harness.keys.management, &path).status, 204);
    assert!(becomes_true(|| harness.rows(&webhook).is_empty()));
}

#[test]
fn pending_delivery_of_a_node_that_does_not_deliver_is_exhausted_after_five_days() {
    let harness = DelivererHarness::start_with(|setup, _| setup.node.delivers_webhooks = false);
    let (_host, webhook) = harness.create_receiver(&[respond(200)]);
    harness.raise(2);
    harness.advance(5 * DAY + Duration::from_secs(60));
    harness.wait_for_rows(&webhook, |it| it.state == "exhausted");
    let sql = format!("SELECT repeats FROM log_records WHERE entity = '{}'", webhook.id);
    let sql = format!("{sql} AND operation = 'drop_webhook_deliveries'");
    assert_eq!(harness.server.engine.select(&sql), [["2"]]);
    harness.advance(26 * DAY);
    assert!(becomes_true(|| harness.rows(&webhook).is_empty()));
}
