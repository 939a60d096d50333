//! Several addresses of one server: the next one, but never a second time.

use std::time::Duration;

use scrip_core::threeds::DirectoryServerError;
use scrip_server::directory_servers::{
    DirectoryServersPlan, ExchangeTimeouts, HttpDirectoryServers,
};
use scrip_testing::directory_server::ServerBehavior;
use serde_json::json;
use tokio::net::TcpSocket;

use crate::harness::{SERVER_NAMES, SchemeHarness, empty_plan, visa_plan};

#[test]
fn next_address_is_tried_only_while_nothing_was_sent() {
    let scene = SchemeHarness::new();
    // Bound, and nobody listens: it stays refused for as long as this lives.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed_url = format!("https://{}/ds", closed.local_addr().unwrap());
    let strange = scene
        .server_with(scene.other.server_config(SERVER_NAMES), &[ServerBehavior::Json(json!({}))]);
    let good = scene.server(&[ServerBehavior::Json(json!({ "it": "is good" }))]);
    let last = scene.server(&[ServerBehavior::Json(json!({ "it": "is last" }))]);
    let urls = [closed_url, strange.url(), good.url(), last.url()];
    let servers = scene.connect(scene.transport_plan(&urls));
    for _ in 0..2 {
        assert_eq!(scene.send(&servers).unwrap(), br#"{"it":"is good"}"#);
    }
    assert_eq!([&strange, &good, &last].map(|it| it.received_requests().len()), [0, 2, 0]);
}

#[test]
fn message_that_may_have_been_received_is_not_sent_to_the_next_address() {
    let scene = SchemeHarness::new();
    for manner in [
        ServerBehavior::HangUp,
        ServerBehavior::Status(500),
        ServerBehavior::Endless,
        ServerBehavior::Status(503),
    ] {
        let first = scene.server(std::slice::from_ref(&manner));
        let second = scene.server(&[ServerBehavior::Json(json!({}))]);
        let servers = scene.connect(scene.transport_plan(&[first.url(), second.url()]));
        assert_eq!(scene.send(&servers).unwrap_err(), DirectoryServerError::Broken, "{manner:?}");
        assert_eq!(
            (first.received_requests().len(), second.received_requests().len()),
            (1, 0),
            "{manner:?}"
        );
    }
}

#[test]
fn timed_out_message_is_not_sent_to_the_next_address() {
    let scene = SchemeHarness::new();
    let first = scene.server(&[ServerBehavior::Silent]);
    let second = scene.server(&[ServerBehavior::Json(json!({}))]);
    let timing =
        ExchangeTimeouts { connect: Duration::from_secs(30), response: Duration::from_millis(300) };
    let production = vec![visa_plan(scene.transport_plan(&[first.url(), second.url()]))];
    let servers = HttpDirectoryServers::new(&DirectoryServersPlan {
        production,
        timeouts: timing,
        ..empty_plan()
    })
    .unwrap();
    assert_eq!(scene.send(&servers).unwrap_err(), DirectoryServerError::TimedOut);
    assert!(second.received_requests().is_empty());
}
