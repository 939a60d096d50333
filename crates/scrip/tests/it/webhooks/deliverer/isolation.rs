//! A slow receiver does not delay other webhooks of its tenant.

#![expect(clippy::print_stderr, reason = "a comparison of times is reported, not asserted")]

use scrip_server::clock::ticks;
use scrip_testing::{destination::behavior::DestinationBehavior, process::harness::becomes_true};

use super::{DelivererHarness, DeliveryRow, respond};

const EVENTS: usize = 100;

/// The median and the 99th percentile of the times from the event to the answer.
fn latencies(rows: &[DeliveryRow]) -> (i64, i64) {
    let mut sorted: Vec<_> = rows.iter().map(|it| it.latency_ms).collect();
    sorted.sort_unstable();
    (sorted[sorted.len() / 2], sorted[sorted.len() * 99 / 100])
}

#[test]
fn receiver_that_hangs_does_not_hold_up_another_webhook_of_the_tenant() {
    let (harness, _host, webhook) = DelivererHarness::start_with_receiver(&[respond(200)]);
    harness.raise(EVENTS);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let alone = latencies(&harness.rows(&webhook));

    let head = b"HTTP/1.1 200 OK\r\nContent-".to_vec();
    let (slow_host, slow) = harness.create_receiver(&[DestinationBehavior::RawThenSilent(head)]);
    let started = ticks();
    harness.raise(EVENTS);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let rows = harness.rows(&webhook);
    assert_eq!(rows.len(), 2 * EVENTS);
    let (elapsed, shared) = (ticks() - started, latencies(&rows[EVENTS..]));
    let slow_rows = harness.rows(&slow);
    assert!(slow_rows.iter().all(|it| it.state == "pending"), "{slow_rows:?}");
    assert!(slow_host.request_count() <= 2, "a new webhook gets two attempts at a time");
    eprintln!(
        "median and p99 in ms: alone {alone:?}, with a receiver that hangs {shared:?}; p99 is {} % \
         of p99 alone; all delivered after {elapsed:?}",
        shared.1 * 100 / alone.1.max(1),
    );

    // The attempts of the slow receiver end after 15 seconds.
    let is_timeout = |it: &DeliveryRow| it.attempts == 1 && it.error.contains("time");
    let has_timeout = || harness.rows(&slow).iter().any(is_timeout);
    let timed_out = (0..4).any(|_| becomes_true(has_timeout));
    assert!(timed_out, "{:?}", harness.rows(&slow));
    assert!((ticks() - started).as_secs() >= 14);
}

#[test]
fn slow_answer_does_not_hold_up_the_other_deliveries_of_its_webhook() {
    let behaviors = [DestinationBehavior::Silent, respond(200)];
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&behaviors);
    harness.raise(1);
    host.wait_for_requests(1);
    harness.raise(20);
    let delivered =
        || harness.rows(&webhook).iter().filter(|it| it.state == "delivered").count() == 20;
    let started = ticks();
    assert!(becomes_true(delivered));
    assert!((ticks() - started).as_secs() < 14, "the first attempt still hangs");
}
