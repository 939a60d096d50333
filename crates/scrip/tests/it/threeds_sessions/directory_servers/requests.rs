//! One message to one directory server: the bytes sent, and the responses accepted.

use std::time::Duration;

use scrip_core::threeds::DirectoryServerError;
use scrip_server::directory_servers::ExchangeTimeouts;
use scrip_testing::directory_server::ServerBehavior;
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use serde_json::json;

use crate::threeds_sessions::directory_servers::harness::{
    MESSAGE, SERVER_NAMES, SHORT_RESPONSE_TIMEOUT, SchemeHarness,
};

#[test]
fn message_is_sent_unchanged_over_mutual_tls() {
    let harness = SchemeHarness::new();
    let (server, servers) =
        harness.connect_to(&[ServerBehavior::Json(json!({ "messageType": "ARes" }))]);
    assert_eq!(harness.send(&servers).unwrap(), br#"{"messageType":"ARes"}"#);
    let requests = server.received_requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].body, MESSAGE);
    assert_eq!(requests[0].content_type, "application/json; charset=utf-8");
    assert_eq!(requests[0].path, "/ds");
    assert_eq!(requests[0].host, server.address.to_string());
}

#[test]
fn server_rejects_a_client_certificate_of_another_authority() {
    let harness = SchemeHarness::new();
    let server = harness.server(&[ServerBehavior::Json(json!({}))]);
    let untrusted_certificate = harness.other.issue("ours", &["vault.example"]);
    let mut transport = harness.transport_plan(&[server.url()]);
    (transport.client_certificate, transport.client_key) =
        (untrusted_certificate.certificate, untrusted_certificate.key);
    // With TLS 1.3 the server rejects the certificate after the client may have sent its message.
    let error = harness.send(&harness.connect(transport)).unwrap_err();
    let expected = [DirectoryServerError::Broken, DirectoryServerError::NotSent];
    assert!(expected.contains(&error), "{error:?}");
    assert!(server.received_requests().is_empty());
}

#[test]
fn message_is_not_sent_to_a_server_without_a_certificate_of_the_scheme() {
    let harness = SchemeHarness::new();
    let behaviors = [ServerBehavior::Json(json!({}))];
    let untrusted_server =
        harness.server_with(harness.other.server_config(SERVER_NAMES), &behaviors);
    let wrong_name =
        harness.server_with(harness.visa.server_config(&["elsewhere.example"]), &behaviors);
    for server in [untrusted_server, wrong_name] {
        let servers = harness.connect(harness.transport_plan(&[server.url()]));
        assert_eq!(harness.send(&servers).unwrap_err(), DirectoryServerError::NotSent);
        assert!(server.received_requests().is_empty());
    }
}

#[test]
fn silent_server_times_out() {
    let harness = SchemeHarness::new();
    let server = harness.server(&[ServerBehavior::Silent]);
    let transport = harness.transport_plan(&[server.url()]);
    let servers = harness.connect_with(transport, SHORT_RESPONSE_TIMEOUT);
    assert_eq!(harness.send(&servers).unwrap_err(), DirectoryServerError::TimedOut);
}

#[test]
fn server_that_does_not_complete_the_handshake_times_out_as_not_sent() {
    let harness = SchemeHarness::new();
    // This listener accepts connections and never continues the TLS handshake.
    let silent_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/ds", silent_listener.local_addr().unwrap());
    let timeouts =
        ExchangeTimeouts { connect: Duration::from_millis(300), response: Duration::from_secs(30) };
    let servers = harness.connect_with(harness.transport_plan(&[url]), timeouts);
    assert_eq!(harness.send(&servers).unwrap_err(), DirectoryServerError::NotSent);
}

#[test]
fn invalid_http_responses_are_reported_as_broken() {
    let harness = SchemeHarness::new();
    let redirect_target = harness.server(&[ServerBehavior::Json(json!({}))]);
    let too_large = ServerBehavior::Bytes(vec![b' '; MESSAGE_BYTES_MAX + 1]);
    let broken_responses = [
        ServerBehavior::HangUp,
        ServerBehavior::Status(500),
        ServerBehavior::Status(204),
        ServerBehavior::Status(201),
        ServerBehavior::RedirectTo(redirect_target.url()),
        ServerBehavior::Endless,
        too_large,
    ];
    for behavior in broken_responses {
        let (server, servers) = harness.connect_to(std::slice::from_ref(&behavior));
        let error = harness.send(&servers).unwrap_err();
        assert_eq!(error, DirectoryServerError::Broken, "{behavior:?}");
        assert_eq!(server.received_requests().len(), 1);
    }
    assert!(redirect_target.received_requests().is_empty());
    let largest_response = ServerBehavior::Bytes(vec![b' '; MESSAGE_BYTES_MAX]);
    let (_server, servers) = harness.connect_to(&[largest_response]);
    assert_eq!(harness.send(&servers).unwrap().len(), MESSAGE_BYTES_MAX);
}
