//! One question at one server: what is sent, and what is taken for an answer.

use std::time::Duration;

use scrip_core::threeds::DirectoryServerError;
use scrip_server::directory_servers::{
    DirectoryServersPlan, ExchangeTimeouts, HttpDirectoryServers,
};
use scrip_testing::directory_server::ServerBehavior;
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use serde_json::json;

use crate::harness::{MESSAGE, SERVER_NAMES, SchemeHarness, empty_plan, visa_plan};

#[test]
fn message_is_sent_unchanged_over_mutual_tls() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[ServerBehavior::Json(json!({ "messageType": "ARes" }))]);
    let servers = scene.connect(scene.transport_plan(&[server.url()]));
    assert_eq!(scene.send(&servers).unwrap(), br#"{"messageType":"ARes"}"#);
    let seen = server.received_requests();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, MESSAGE);
    assert_eq!(seen[0].content_type, "application/json; charset=utf-8");
    assert_eq!((seen[0].path.as_str(), &seen[0].host), ("/ds", &server.address.to_string()));
}

#[test]
fn server_rejects_a_client_certificate_of_another_authority() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[ServerBehavior::Json(json!({}))]);
    let strange = scene.other.issue("ours", &["vault.example"]);
    let mut way = scene.transport_plan(&[server.url()]);
    (way.client_certificate, way.client_key) = (strange.certificate, strange.key);
    // With TLS 1.3 the server says so when the message may have left already.
    let unanswered = scene.send(&scene.connect(way)).unwrap_err();
    assert!(
        matches!(unanswered, DirectoryServerError::Broken | DirectoryServerError::NotSent),
        "{unanswered:?}"
    );
    assert!(server.received_requests().is_empty());
}

#[test]
fn message_is_not_sent_to_a_server_without_a_certificate_of_the_scheme() {
    let scene = SchemeHarness::new();
    let answer = [ServerBehavior::Json(json!({}))];
    let strange = scene.server_with(scene.other.server_config(SERVER_NAMES), &answer);
    let named = scene.server_with(scene.visa.server_config(&["elsewhere.example"]), &answer);
    for server in [strange, named] {
        let servers = scene.connect(scene.transport_plan(&[server.url()]));
        assert_eq!(scene.send(&servers).unwrap_err(), DirectoryServerError::NotSent);
        assert!(server.received_requests().is_empty());
    }
}

#[test]
fn silent_server_times_out() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[ServerBehavior::Silent]);
    let timing =
        ExchangeTimeouts { connect: Duration::from_secs(30), response: Duration::from_millis(300) };
    let production = vec![visa_plan(scene.transport_plan(&[server.url()]))];
    let servers = HttpDirectoryServers::new(&DirectoryServersPlan {
        production,
        timeouts: timing,
        ..empty_plan()
    })
    .unwrap();
    assert_eq!(scene.send(&servers).unwrap_err(), DirectoryServerError::TimedOut);
}

#[test]
fn server_that_does_not_complete_the_handshake_times_out_as_not_sent() {
    let scene = SchemeHarness::new();
    // It takes the connection, and then never says anything of TLS.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/ds", deaf.local_addr().unwrap());
    let timing =
        ExchangeTimeouts { connect: Duration::from_millis(300), response: Duration::from_secs(30) };
    let production = vec![visa_plan(scene.transport_plan(&[url]))];
    let servers = HttpDirectoryServers::new(&DirectoryServersPlan {
        production,
        timeouts: timing,
        ..empty_plan()
    })
    .unwrap();
    assert_eq!(scene.send(&servers).unwrap_err(), DirectoryServerError::NotSent);
}

#[test]
fn invalid_http_responses_are_reported_as_broken() {
    let scene = SchemeHarness::new();
    let elsewhere = scene.server(&[ServerBehavior::Json(json!({}))]);
    let too_large = ServerBehavior::Bytes(vec![b' '; MESSAGE_BYTES_MAX + 1]);
    let broken = [
        ServerBehavior::HangUp,
        ServerBehavior::Status(500),
        ServerBehavior::Status(204),
        ServerBehavior::Status(201),
        ServerBehavior::RedirectTo(elsewhere.url()),
        ServerBehavior::Endless,
        too_large,
    ];
    for manner in broken {
        let server = scene.server(std::slice::from_ref(&manner));
        let servers = scene.connect(scene.transport_plan(&[server.url()]));
        assert_eq!(scene.send(&servers).unwrap_err(), DirectoryServerError::Broken, "{manner:?}");
        assert_eq!(server.received_requests().len(), 1);
    }
    assert!(elsewhere.received_requests().is_empty());
    let largest = scene.server(&[ServerBehavior::Bytes(vec![b' '; MESSAGE_BYTES_MAX])]);
    let servers = scene.connect(scene.transport_plan(&[largest.url()]));
    assert_eq!(scene.send(&servers).unwrap().len(), MESSAGE_BYTES_MAX);
}
