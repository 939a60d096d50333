//! A server that stops finishes its attempts and gives back the others.

use std::{sync::Arc, thread::sleep, time::Duration};

use scrip_server::listen::serve_plain;
use tokio::{net::TcpListener, sync::oneshot, time::timeout};

use super::{DelivererHarness, respond};

const EVENTS: usize = 40;
/// Enough successes for the highest concurrency, so that many deliveries are claimed at once.
const FIRST_EVENTS: usize = 8;

#[test]
fn server_that_stops_finishes_its_attempts_and_gives_back_the_rest() {
    let (harness, host, webhook) = DelivererHarness::start_with_receiver(&[respond(200)]);
    harness.raise(FIRST_EVENTS);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    host.set_behaviors(&[respond(200).gated()]);
    let server = &harness.server;
    let listener = server.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let (stop_sender, stop_receiver) = oneshot::channel::<()>();
    let stop = async move { drop(stop_receiver.await) };
    let serving = server.runtime.spawn(serve_plain(Arc::clone(&server.node), listener, stop));
    harness.raise(EVENTS);
    host.wait_for_requests(FIRST_EVENTS + 1);
    stop_sender.send(()).unwrap();
    sleep(Duration::from_millis(500));
    assert!(!serving.is_finished(), "the server waits for its attempts");
    host.open_gate(EVENTS);
    server.runtime.block_on(async {
        timeout(Duration::from_secs(45), serving).await.expect("the server stops").unwrap();
    });
    let (rows, now) = (harness.rows(&webhook), harness.now_ms());
    let delivered = rows.iter().filter(|it| it.state == "delivered").count();
    assert_eq!(delivered, host.request_count(), "every answer is stored");
    assert!(delivered > FIRST_EVENTS, "{delivered}");
    let claimed = rows.iter().filter(|it| it.state == "pending" && it.next_at > now);
    assert_eq!(claimed.count(), 0, "no claim is left behind");

    let _second_node = harness.start_second_node();
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    let requests = host.request_count();
    assert_eq!(requests, FIRST_EVENTS + EVENTS, "no event is delivered twice");
}

#[test]
fn node_with_another_node_on_its_store_delivers_each_event_once() {
    let harness = DelivererHarness::start();
    let _second_node = harness.start_second_node();
    let (host, webhook) = harness.create_receiver(&[respond(200)]);
    harness.raise(EVENTS);
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
    assert_eq!(host.request_count(), EVENTS);
}

#[test]
fn node_that_does_not_deliver_leaves_deliveries_to_others() {
    let harness = DelivererHarness::start_with(|setup, _| setup.node.delivers_webhooks = false);
    let (host, webhook) = harness.create_receiver(&[respond(200)]);
    harness.raise(1);
    sleep(Duration::from_secs(1));
    assert_eq!((host.request_count(), harness.single_row(&webhook).attempts), (0, 0));
    let _second_node = harness.start_second_node();
    harness.wait_for_rows(&webhook, |it| it.state == "delivered");
}
