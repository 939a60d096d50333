//! A slow receiver does not delay other webhooks of its tenant.

use std::time::Instant;

use scrip_testing::{destination::behavior::DestinationBehavior, process::harness::becomes_true};

use super::{DeliveryHarness, DeliveryRow, respond};

const EVENTS: usize = 100;

/// The median and the 99th percentile of the times from the event to the answer.
fn latencies(rows: &[DeliveryRow]) -> (i64, i64) {
    let mut sorted: Vec<_> = rows.iter().map(|it| it.latency_ms).collect();
    sorted.sort_unstable();
    (sorted[sorted.len() / 2], sorted[sorted.len() * 99 / 100])
}

#[test]
fn receiver_that_hangs_does_not_hold_up_another_webhook_of_the_tenant() {
    let harness = DeliveryHarness::start();
    let host = harness.receivers.host(&[respond(200)]);
    let webhook = harness.create_webhook(&host.url("/"));
    harness.raise(EVENTS);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let alone = latencies(&harness.rows(&webhook));

    let head = b"HTTP/1.1 200 OK\r\nContent-".to_vec();
    let slow_host = harness.receivers.host(&[DestinationBehavior::RawThenSilent(head)]);
    let slow = harness.create_webhook(&slow_host.url("/"));
    let started = Instant::now();
    harness.raise(EVENTS);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let rows = harness.rows(&webhook);
    assert_eq!(rows.len(), 2 * EVENTS);
    let (elapsed, shared) = (started.elapsed(), latencies(&rows[EVENTS..]));
    let slow_rows = harness.rows(&slow);
    assert!(slow_rows.iter().all(|it| it.state == "pending"), "{slow_rows:?}");
    assert!(slow_host.request_count() <= 2, "a new webhook gets two attempts at a time");
    println!(
        "alone: median {} ms, p99 {} ms; with a receiver that hangs: median {} ms, p99 {} ms; \
         ratio of p99 {:.2}; {elapsed:?}",
        alone.0,
        alone.1,
        shared.0,
        shared.1,
        shared.1 as f64 / alone.1.max(1) as f64,
    );

    // The attempts of the slow receiver end after 15 seconds.
    let is_timeout = |it: &DeliveryRow| it.attempts == 1 && it.error.contains("time");
    let has_timeout = || harness.rows(&slow).iter().any(is_timeout);
    let timed_out = (0..4).any(|_| becomes_true(has_timeout));
    assert!(timed_out, "{:?}", harness.rows(&slow));
    assert!(started.elapsed().as_secs() >= 14);
}

#[test]
fn slow_answer_does_not_hold_up_the_other_deliveries_of_its_webhook() {
    let harness = DeliveryHarness::start();
    let host = harness.receivers.host(&[DestinationBehavior::Silent, respond(200)]);
    let webhook = harness.create_webhook(&host.url("/"));
    harness.raise(1);
    host.wait_for_requests(1);
    harness.raise(20);
    let delivered =
        || harness.rows(&webhook).iter().filter(|it| it.state == "delivered").count() == 20;
    let started = Instant::now();
    assert!(becomes_true(delivered));
    assert!(started.elapsed().as_secs() < 14, "the first attempt still hangs");
}
