//! One question at one server: what is sent, and what is taken for an answer.

use std::time::Duration;

use scrip_core::threeds::Unanswered;
use scrip_server::directory_servers::{Plan, Servers, Timing};
use scrip_testing::directory_server::Manner;
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use serde_json::json;

use crate::scene::{NAMES, QUESTION, SchemeHarness, nobody, visa};

#[test]
fn both_show_their_certificates_and_the_message_arrives_as_it_is() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[Manner::Answer(json!({ "messageType": "ARes" }))]);
    let servers = scene.connect(scene.way(&[server.url()]));
    assert_eq!(scene.ask(&servers).unwrap(), br#"{"messageType":"ARes"}"#);
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, QUESTION);
    assert_eq!(seen[0].content_type, "application/json; charset=utf-8");
    assert_eq!((seen[0].path.as_str(), &seen[0].host), ("/ds", &server.address.to_string()));
}

#[test]
fn a_certificate_that_the_scheme_did_not_give_opens_nothing() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[Manner::Answer(json!({}))]);
    let strange = scene.other.issue("ours", &["vault.example"]);
    let mut way = scene.way(&[server.url()]);
    (way.client_certificate, way.client_key) = (strange.certificate, strange.key);
    // With TLS 1.3 the server says so when the message may have left already.
    let unanswered = scene.ask(&scene.connect(way)).unwrap_err();
    assert!(matches!(unanswered, Unanswered::Broken | Unanswered::NotSent), "{unanswered:?}");
    assert!(server.seen().is_empty());
}

#[test]
fn who_is_not_the_scheme_is_told_nothing() {
    let scene = SchemeHarness::new();
    let answer = [Manner::Answer(json!({}))];
    let strange = scene.server_with(scene.other.server(NAMES), &answer);
    let named = scene.server_with(scene.visa.server(&["elsewhere.example"]), &answer);
    for server in [strange, named] {
        let servers = scene.connect(scene.way(&[server.url()]));
        assert_eq!(scene.ask(&servers).unwrap_err(), Unanswered::NotSent);
        assert!(server.seen().is_empty());
    }
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[Manner::Silent]);
    let timing = Timing { connect: Duration::from_secs(30), answer: Duration::from_millis(300) };
    let production = vec![visa(scene.way(&[server.url()]))];
    let servers = Servers::new(&Plan { production, timing, ..nobody() }).unwrap();
    assert_eq!(scene.ask(&servers).unwrap_err(), Unanswered::TimedOut);
}

#[test]
fn who_cannot_be_connected_to_is_not_waited_for_either() {
    let scene = SchemeHarness::new();
    // It takes the connection, and then never says anything of TLS.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/ds", deaf.local_addr().unwrap());
    let timing = Timing { connect: Duration::from_millis(300), answer: Duration::from_secs(30) };
    let production = vec![visa(scene.way(&[url]))];
    let servers = Servers::new(&Plan { production, timing, ..nobody() }).unwrap();
    assert_eq!(scene.ask(&servers).unwrap_err(), Unanswered::NotSent);
}

#[test]
fn what_is_no_answer_is_not_taken_for_one() {
    let scene = SchemeHarness::new();
    let elsewhere = scene.server(&[Manner::Answer(json!({}))]);
    let too_large = Manner::Bytes(vec![b' '; MESSAGE_BYTES_MAX + 1]);
    let broken = [
        Manner::HangUp,
        Manner::Status(500),
        Manner::Status(204),
        Manner::Status(201),
        Manner::RedirectTo(elsewhere.url()),
        Manner::Endless,
        too_large,
    ];
    for manner in broken {
        let server = scene.server(std::slice::from_ref(&manner));
        let servers = scene.connect(scene.way(&[server.url()]));
        assert_eq!(scene.ask(&servers).unwrap_err(), Unanswered::Broken, "{manner:?}");
        assert_eq!(server.seen().len(), 1);
    }
    assert!(elsewhere.seen().is_empty());
    let largest = scene.server(&[Manner::Bytes(vec![b' '; MESSAGE_BYTES_MAX])]);
    let servers = scene.connect(scene.way(&[largest.url()]));
    assert_eq!(scene.ask(&servers).unwrap().len(), MESSAGE_BYTES_MAX);
}
