//! Receivers that fail, and rows that were altered.

use std::{net::Ipv4Addr, thread::sleep, time::Duration};

use scrip_testing::{
    destination::behavior::{CannedResponse, DestinationBehavior},
    process::harness::becomes_true,
};

use super::{DelivererHarness, parse_body, respond};

const HOUR: Duration = Duration::from_secs(60 * 60);

#[test]
fn failed_delivery_is_repeated_after_five_seconds_with_the_same_id() {
    let behaviors = [respond(500), respond(200)];
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&behaviors);
    harness.raise(1);
    let row = harness.wait_for_attempt(&webhook, 1);
    assert_eq!((&*row.state, row.status), ("pending", 500));
    let delay = row.next_at - row.last_attempt_at;
    assert!((4500..=5600).contains(&delay), "{delay} ms");
    assert_eq!(host.request_count(), 1);
    harness.advance(Duration::from_secs(6));
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let requests = host.requests();
    let bodies: Vec<_> = requests.iter().map(parse_body).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0]["event"], bodies[1]["event"]);
    assert_ne!(bodies[0]["delivered_at"], bodies[1]["delivered_at"]);
}

#[test]
fn receiver_decides_with_retry_after_when_the_next_attempt_follows() {
    let busy = CannedResponse::new(503, "text/plain", "").with_header("Retry-After", "120");
    let behaviors = [busy.into(), respond(200)];
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&behaviors);
    harness.raise(1);
    let row = harness.wait_for_attempt(&webhook, 1);
    let delay = row.next_at - row.last_attempt_at;
    assert!((120_000..=132_500).contains(&delay), "{delay} ms");
    harness.advance(Duration::from_secs(100));
    sleep(Duration::from_secs(1));
    assert_eq!(host.request_count(), 1);
    harness.advance(Duration::from_secs(40));
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
}

#[test]
fn answer_410_disables_the_webhook_at_once() {
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&[respond(410)]);
    harness.raise(1);
    assert!(becomes_true(|| harness.status_of(&webhook) == "disabled"));
    let sql = format!("SELECT actor_kind FROM log_records WHERE entity = '{}'", webhook.id);
    let sql = format!("{sql} AND operation = 'disable_webhook'");
    assert_eq!(harness.server.engine.select(&sql).len(), 1);
    harness.raise(3);
    harness.advance(HOUR);
    sleep(Duration::from_secs(1));
    assert_eq!(host.request_count(), 1);
    assert_eq!(disabled_counts(&harness), [("gone", 1), ("exhausted", 0)]);
}

fn disabled_counts(harness: &DelivererHarness) -> Vec<(&'static str, u64)> {
    let disabled = &harness.server.app.metrics.webhooks.disabled;
    disabled.iter().map(|(label, counter)| (label, counter.get())).collect()
}

#[test]
fn webhook_without_a_success_for_five_days_is_disabled() {
    let (harness, _host, webhook) = DelivererHarness::start_with_receiver(&[respond(500)]);
    harness.raise(1);
    for attempts in 1..=5 {
        let row = harness.wait_for_attempt(&webhook, attempts);
        assert_eq!(row.state, "pending", "after attempt {attempts}");
        assert_eq!(harness.status_of(&webhook), "enabled");
        harness.advance(23 * HOUR);
    }
    let row = harness.wait_for_attempt(&webhook, 6);
    assert_eq!(row.state, "exhausted");
    assert!(becomes_true(|| harness.status_of(&webhook) == "disabled"));
    assert_eq!(disabled_counts(&harness), [("gone", 0), ("exhausted", 1)]);
}

#[test]
fn redirect_is_a_failure_and_is_not_followed() {
    let harness = DelivererHarness::start();
    let target = harness.receivers.host(&[respond(200)]);
    let redirect = CannedResponse::new(307, "text/plain", "");
    let redirect = redirect.with_header("Location", &target.url("/hooks"));
    let (_host, webhook) = harness.create_receiver(&[redirect.into()]);
    harness.raise(1);
    let row = harness.wait_for_attempt(&webhook, 1);
    assert_eq!((&*row.state, row.status), ("pending", 307));
    assert_eq!(target.request_count(), 0);
}

/// The network of the first address is allowed, the one of the second is not.
#[test]
fn receiver_that_moves_to_an_inner_address_gets_no_request() {
    let behaviors = [DestinationBehavior::HangUp, respond(200)];
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&behaviors);
    harness.raise(1);
    harness.wait_for_attempt(&webhook, 1);
    assert_eq!(host.connections(), 1);
    let inner = Ipv4Addr::new(127, 0, 0, 2).into();
    harness.resolver.0.lock().unwrap().insert(host.name().to_owned(), inner);
    harness.advance(Duration::from_secs(6));
    let row = harness.wait_for_attempt(&webhook, 2);
    assert_eq!(row.state, "pending");
    assert!(row.error.contains("no address that the vault may connect to"), "{}", row.error);
    assert_eq!((host.connections(), host.request_count()), (1, 1));
}

#[test]
fn altered_delivery_is_not_sent_and_does_not_stop_the_others() {
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&[respond(500)]);
    harness.raise(1);
    harness.wait_for_attempt(&webhook, 1);
    harness.server.engine.execute("UPDATE deliveries SET event_type = 'token.deleted'");
    host.set_behaviors(&[respond(200)]);
    harness.advance(Duration::from_secs(6));
    harness.raise(3);
    harness.wait_for_rows(&webhook, |it| it.state != "pending");
    let rows = harness.rows(&webhook);
    let states: Vec<_> = rows.iter().map(|it| it.state.as_str()).collect();
    assert_eq!(states, ["exhausted", "delivered", "delivered", "delivered"]);
    assert_eq!(rows[0].error, "the stored event was altered");
    assert_eq!(host.request_count(), 4);
    assert_eq!(harness.status_of(&webhook), "enabled");
}

/// The lease of the first attempt ends before its answer, so a second attempt starts. The late
/// answer must not replace the state of the second one.
#[test]
fn answer_after_the_end_of_a_lease_is_not_stored() {
    let behaviors = [respond(500).gated(), respond(200).gated()];
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&behaviors);
    harness.raise(1);
    host.wait_for_requests(1);
    harness.advance(Duration::from_secs(31));
    host.wait_for_requests(2);
    host.open_gate(1);
    let failures = || {
        let attempts = harness.server.app.metrics.webhooks.attempts.iter();
        attempts.filter(|(label, _)| *label == "failed").map(|(_, it)| it.get()).sum::<u64>()
    };
    assert!(becomes_true(|| failures() == 1));
    sleep(Duration::from_secs(1));
    let row = harness.single_row(&webhook);
    assert_eq!((&*row.state, row.attempts, row.status), ("pending", 2, 0));
    host.open_gate(1);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    assert_eq!((harness.single_row(&webhook).status, host.request_count()), (200, 2));
}
