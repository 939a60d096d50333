//! Several addresses of one server: the next one, but never a second time.

use std::time::Duration;

use scrip_core::threeds::Unanswered;
use scrip_server::directory_servers::{Plan, Servers, Timing};
use scrip_testing::directory_server::Manner;
use serde_json::json;
use tokio::net::TcpSocket;

use crate::scene::{NAMES, SchemeHarness, nobody, visa};

#[test]
fn the_next_address_is_for_when_nothing_has_left() {
    let scene = SchemeHarness::new();
    // Bound, and nobody listens: it stays refused for as long as this lives.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed_url = format!("https://{}/ds", closed.local_addr().unwrap());
    let strange = scene.server_with(scene.other.server(NAMES), &[Manner::Answer(json!({}))]);
    let good = scene.server(&[Manner::Answer(json!({ "it": "is good" }))]);
    let last = scene.server(&[Manner::Answer(json!({ "it": "is last" }))]);
    let urls = [closed_url, strange.url(), good.url(), last.url()];
    let servers = scene.connect(scene.way(&urls));
    for _ in 0..2 {
        assert_eq!(scene.ask(&servers).unwrap(), br#"{"it":"is good"}"#);
    }
    assert_eq!([&strange, &good, &last].map(|it| it.seen().len()), [0, 2, 0]);
}

#[test]
fn what_may_have_been_seen_is_never_sent_again() {
    let scene = SchemeHarness::new();
    for manner in [Manner::HangUp, Manner::Status(500), Manner::Endless, Manner::Status(503)] {
        let first = scene.server(std::slice::from_ref(&manner));
        let second = scene.server(&[Manner::Answer(json!({}))]);
        let servers = scene.connect(scene.way(&[first.url(), second.url()]));
        assert_eq!(scene.ask(&servers).unwrap_err(), Unanswered::Broken, "{manner:?}");
        assert_eq!((first.seen().len(), second.seen().len()), (1, 0), "{manner:?}");
    }
}

#[test]
fn nor_when_nobody_answers_in_time() {
    let scene = SchemeHarness::new();
    let first = scene.server(&[Manner::Silent]);
    let second = scene.server(&[Manner::Answer(json!({}))]);
    let timing = Timing { connect: Duration::from_secs(30), answer: Duration::from_millis(300) };
    let production = vec![visa(scene.way(&[first.url(), second.url()]))];
    let servers = Servers::new(&Plan { production, timing, ..nobody() }).unwrap();
    assert_eq!(scene.ask(&servers).unwrap_err(), Unanswered::TimedOut);
    assert!(second.seen().is_empty());
}
