//! Slow, silent, half-closing, oversized, malformed and TLS-broken destinations: each gives the
//! documented answer.

use std::time::Duration;

use scrip_server::clock::ticks;
use scrip_testing::destination::{
    authority::{HostTls, HttpVersions},
    behavior::{CannedResponse, DestinationBehavior},
};
use serde_json::json;

use crate::proxy::harness::{PROXY, StatedDelivery};

/// Sends a request through a proxy with a limit of one second.
#[track_caller]
fn call(behavior: DestinationBehavior) -> crate::proxy::harness::ProxyResponse {
    let host = PROXY.destinations.host(&[behavior]);
    let proxy = PROXY.create_proxy_to(&host, json!({"timeout": 1}));
    let response = PROXY.post_to(&proxy).json(&json!({"amount": 1})).send();
    assert_eq!(host.request_count(), 1, "a request is never sent twice");
    response
}

/// A request never leaves the vault if the handshake with its host fails.
#[test]
fn destination_with_broken_tls_receives_nothing() {
    for tls in [
        HostTls::OtherName,
        HostTls::UnknownAuthority,
        HostTls::Expired,
        HostTls::Garbage,
        HostTls::Close,
    ] {
        let host = PROXY.destinations.host_with(tls, HttpVersions::Http1, &[]);
        let response = PROXY.post(&host.url("")).json(&json!({"amount": 1})).send();
        let error = response.expect_not_sent(502);
        assert_eq!(host.request_count(), 0, "{tls:?}");
        assert!(!error.to_string().contains(host.name()), "{tls:?}: {error}");
    }
}

#[test]
fn destination_without_a_listener_is_not_sent() {
    // A port that was free a moment ago, but is not allowed, and a name without an address.
    PROXY.post("https://unknown.example.test/").json(&json!({})).send().expect_not_sent(502);
    PROXY.resolver.set("closed.example.test", &["127.0.0.1"]);
    // No listener of this machine has port 443, or it has no trusted certificate.
    PROXY.post("https://closed.example.test/").json(&json!({})).send().expect_not_sent(502);
    PROXY.post("https://closed.example.test:8444/").json(&json!({})).send().expect_not_sent(403);
}

#[test]
fn silent_destination_is_408_after_the_time_limit() {
    let started = ticks();
    call(DestinationBehavior::Silent).expect_error(408, StatedDelivery::MaybeSent);
    assert!(ticks().saturating_sub(started) >= Duration::from_secs(1));
}

#[test]
fn destination_that_answers_within_the_limit_is_answered() {
    let answer = DestinationBehavior::text(201, "late");
    let host = PROXY.destinations.host(&[answer.gated()]);
    let proxy = PROXY.create_proxy_to(&host, json!({"timeout": 60}));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| PROXY.post_to(&proxy).json(&json!({})).send());
        host.wait_for_requests(1);
        host.open_gate(1);
        assert_eq!(call.join().unwrap().expect_answer(201).text(), "late");
    });
}

#[test]
fn destination_that_closes_after_the_request_is_maybe_sent() {
    call(DestinationBehavior::HangUp).expect_error(502, StatedDelivery::MaybeSent);
}

#[test]
fn malformed_answers_are_502_and_maybe_sent() {
    for bytes in [
        "garbage\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header line\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "\u{16}\u{3}\u{1}",
        "",
    ] {
        let response = call(DestinationBehavior::Raw(bytes.as_bytes().to_vec()));
        response.expect_error(502, StatedDelivery::MaybeSent);
    }
}

#[test]
fn head_of_an_answer_that_never_ends_is_not_answered() {
    let part = b"HTTP/1.1 200 OK\r\nContent-Type: te".to_vec();
    let response = call(DestinationBehavior::RawThenSilent(part));
    response.expect_error(408, StatedDelivery::MaybeSent);
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for index in 0..20_000 {
        head.extend_from_slice(format!("X-{index}: {index}\r\n").as_bytes());
    }
    let response = call(DestinationBehavior::Raw(head));
    response.expect_error(502, StatedDelivery::MaybeSent);
}

/// Without a transform the body is streamed, so its end is missing after the status was sent: the
/// client must see an incomplete message.
#[test]
fn body_that_ends_early_never_looks_complete() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly a part".to_vec();
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n4\r\nca".to_vec();
    for bytes in [cut, chunked] {
        let host = PROXY.destinations.host(&[DestinationBehavior::Raw(bytes)]);
        let request = format!(
            "POST /proxy HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nBT-PROXY-URL: {}\r\n\
             Content-Length: 0\r\n\r\n",
            PROXY.keys.private,
            host.url("")
        );
        let response = PROXY.server.send_raw(request.as_bytes());
        assert_eq!(host.request_count(), 1);
        if response.starts_with("HTTP/1.1 502") {
            assert!(response.contains("\"answered\""), "{response}");
            assert!(response.to_ascii_lowercase().contains("bt-proxy-destination-status: 200"));
            continue;
        }
        // The server may notice the failure before it has sent the head.
        if response.is_empty() {
            continue;
        }
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        let is_chunked = response.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let length: Option<usize> = response
            .to_ascii_lowercase()
            .lines()
            .find_map(|it| it.strip_prefix("content-length: ").map(|it| it.parse().unwrap()));
        let body = response.split("\r\n\r\n").nth(1).unwrap_or_default();
        let is_complete = if is_chunked {
            response.ends_with("0\r\n\r\n")
        } else {
            length.is_some_and(|it| body.len() >= it)
        };
        assert!(!is_complete, "{response}");
    }
}

#[test]
fn oversized_answer_is_answered_but_not_forwarded_after_a_transform() {
    let host = PROXY.destinations.host(&[DestinationBehavior::Endless]);
    let mask =
        json!([{"type": "mask", "matcher": "regex", "expression": "(x)", "replacement": "*"}]);
    let proxy = PROXY.create_proxy_to(&host, json!({"response_transforms": mask, "timeout": 30}));
    let response = PROXY.post_to(&proxy).json(&json!({})).send();
    response.expect_error(502, StatedDelivery::Answered);
    assert_eq!(response.destination_status(), Some(200));
}

#[test]
fn endless_answer_without_a_transform_is_cut() {
    let host = PROXY.destinations.host(&[DestinationBehavior::Endless]);
    let proxy = PROXY.create_proxy_to(&host, json!({"timeout": 30}));
    let request = format!(
        "POST /proxy HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nBT-PROXY-KEY: {}\r\n\
         Content-Length: 0\r\n\r\n",
        PROXY.keys.private, proxy.key
    );
    let response = PROXY.server.send_raw(request.as_bytes());
    let head = response.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    assert!(head.contains("bt-proxy-destination-status: 200"), "{head}");
    assert!(response.len() < 4 << 20, "{} bytes", response.len());
    assert!(!response.ends_with("0\r\n\r\n"), "an incomplete body looks complete");
}

#[test]
fn oversized_request_is_413_and_not_sent() {
    let host = PROXY.destinations.host(&[]);
    let body = "x".repeat((1 << 20) + 1);
    PROXY.post(&host.url("")).body("text/plain", body).send().expect_not_sent(413);
    assert_eq!(host.request_count(), 0);
    let body = "x".repeat(1 << 20);
    PROXY.post(&host.url("")).body("text/plain", body.clone()).send().expect_answer(200);
    assert_eq!(host.single_request().text(), body);
}

#[test]
fn large_answer_is_streamed_unchanged() {
    let body: String = (0..100_000).map(|it| format!("{it:09} ")).collect();
    let host = PROXY.destinations.host(&[DestinationBehavior::text(200, &body)]);
    let response = PROXY.post(&host.url("")).json(&json!({})).send().expect_answer(200);
    assert!(response.text() == body, "{} of {} bytes", response.text().len(), body.len());
}

/// An idle connection that the destination closed must not fail the next request, and no request is
/// sent twice.
#[test]
fn closed_idle_connection_is_replaced() {
    let closing = CannedResponse::new(200, "text/plain", "x").with_header("Connection", "close");
    let host = PROXY.destinations.host(&[
        closing.into(),
        DestinationBehavior::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny".to_vec()),
        DestinationBehavior::Echo,
    ]);
    for count in 1..=4 {
        PROXY.post(&host.url("")).json(&json!({})).send().expect_answer(200);
        assert_eq!(host.request_count(), count);
    }
}

#[test]
fn informational_answers_are_skipped() {
    let bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
                 HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let response = call(DestinationBehavior::Raw(bytes.as_bytes().to_vec())).expect_answer(200);
    assert_eq!(response.text(), "ok");
    assert_eq!(response.header("link"), None);
}
