//! Failover between several addresses of one directory server. A message that may have been
//! received is never sent again.

use scrip_core::threeds::DirectoryServerError;
use scrip_testing::directory_server::ServerBehavior;
use serde_json::json;
use tokio::net::TcpSocket;

use crate::threeds_sessions::directory_servers::harness::{
    SERVER_NAMES, SHORT_RESPONSE_TIMEOUT, SchemeHarness,
};

#[test]
fn next_address_is_tried_only_while_nothing_was_sent() {
    let harness = SchemeHarness::new();
    // This socket is bound but does not listen: connections are rejected as long as it exists.
    let closed_socket = TcpSocket::new_v4().unwrap();
    closed_socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed_url = format!("https://{}/ds", closed_socket.local_addr().unwrap());
    let untrusted_server = harness
        .server_with(harness.other.server_config(SERVER_NAMES), &[ServerBehavior::Json(json!({}))]);
    let good_server = harness.server(&[ServerBehavior::Json(json!({ "server": "good" }))]);
    let last_server = harness.server(&[ServerBehavior::Json(json!({ "server": "last" }))]);
    let urls = [closed_url, untrusted_server.url(), good_server.url(), last_server.url()];
    let servers = harness.connect(harness.transport_plan(&urls));
    for _ in 0..2 {
        assert_eq!(harness.send(&servers).unwrap(), br#"{"server":"good"}"#);
    }
    let all_servers = [&untrusted_server, &good_server, &last_server];
    assert_eq!(all_servers.map(|it| it.received_requests().len()), [0, 2, 0]);
}

#[test]
fn message_that_may_have_been_received_is_not_sent_to_the_next_address() {
    let harness = SchemeHarness::new();
    for behavior in [
        ServerBehavior::HangUp,
        ServerBehavior::Status(500),
        ServerBehavior::Endless,
        ServerBehavior::Status(503),
    ] {
        let first = harness.server(std::slice::from_ref(&behavior));
        let second_server = harness.server(&[ServerBehavior::Json(json!({}))]);
        let servers = harness.connect(harness.transport_plan(&[first.url(), second_server.url()]));
        let error = harness.send(&servers).unwrap_err();
        assert_eq!(error, DirectoryServerError::Broken, "{behavior:?}");
        let counts = [&first, &second_server].map(|it| it.received_requests().len());
        assert_eq!(counts, [1, 0], "{behavior:?}");
    }
}

#[test]
fn timed_out_message_is_not_sent_to_the_next_address() {
    let harness = SchemeHarness::new();
    let first = harness.server(&[ServerBehavior::Silent]);
    let second_server = harness.server(&[ServerBehavior::Json(json!({}))]);
    let transport = harness.transport_plan(&[first.url(), second_server.url()]);
    let servers = harness.connect_with(transport, SHORT_RESPONSE_TIMEOUT);
    assert_eq!(harness.send(&servers).unwrap_err(), DirectoryServerError::TimedOut);
    assert!(second_server.received_requests().is_empty());
}
