//! Answers that try to control a server between the vault and its clients, or a browser.

use scrip_testing::destination::behavior::{CannedResponse, DestinationBehavior};
use serde_json::json;

use crate::proxy::{
    harness::{PROXY, StatedDelivery},
    hosts::map_host,
};

const FRONT_SERVER_HEADERS: [&str; 14] = [
    "X-Accel-Redirect",
    "X-Accel-Expires",
    "X-Accel-Buffering",
    "X-Sendfile",
    "X-Sendfile2",
    "X-Reproxy-URL",
    "X-Reproxy-File",
    "X-LIGHTTPD-send-file",
    "X-LiteSpeed-Location",
    "X-Envoy-Immediate-Health-Check-Fail",
    "Surrogate-Control",
    "CDN-Cache-Control",
    "Cloudflare-CDN-Cache-Control",
    "Expires",
];
const HOST_STATE_HEADERS: [&str; 8] = [
    "Set-Cookie",
    "Set-Cookie2",
    "Accept-CH",
    "Critical-CH",
    "Origin-Trial",
    "Speculation-Rules",
    "Refresh",
    "SourceMap",
];

fn hostile_answer() -> DestinationBehavior {
    let mut response = CannedResponse::new(200, "text/html", "ok").with_header("X-Plain", "1");
    for name in FRONT_SERVER_HEADERS.iter().chain(&HOST_STATE_HEADERS) {
        response = response.with_header(name, "/internal");
    }
    response.into()
}

#[test]
fn answer_cannot_control_a_server_in_front_of_the_vault() {
    let host = PROXY.destinations.host(&[hostile_answer()]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    map_host(&PROXY, &proxy, "front.shop.example");
    let on_vault = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    let on_host = PROXY.request_at("POST", "/x").header("Host", "front.shop.example");
    let on_host = on_host.api_key(&PROXY.keys.private).json(&json!({})).send().expect_answer(200);
    for name in FRONT_SERVER_HEADERS {
        assert_eq!(on_vault.header(name), None, "{name} on the host of the vault");
        assert_eq!(on_host.header(name), None, "{name} on a custom host");
    }
    for name in HOST_STATE_HEADERS {
        assert_eq!(on_vault.header(name), None, "{name} on the host of the vault");
        assert!(on_host.header(name).is_some(), "{name} on a custom host");
    }
    for response in [on_vault, on_host] {
        assert_eq!(response.header("x-plain"), Some("1"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
}

/// Some servers honor `Request-Range` like `Range`, and a destination can answer with a part that no
/// client asked for.
#[test]
fn part_of_an_answer_does_not_pass_a_mask() {
    let partial = || CannedResponse::new(206, "text/plain", "42424242");
    let whole_with_range = CannedResponse::new(200, "text/plain", "42424242");
    let host = PROXY.destinations.host(&[]);
    let transforms = json!([{"type": "mask", "matcher": "regex",
        "expression": "number=(\\d+)", "replacement": "*"}]);
    let masked = PROXY.create_proxy_to(&host, json!({"response_transforms": transforms}));
    for answer in [
        partial(),
        partial().with_header("Content-Range", "bytes 7-14/30"),
        whole_with_range.with_header("Content-Range", "bytes 7-14/30"),
        CannedResponse::new(226, "text/plain", "42424242"),
    ] {
        host.set_behaviors(&[answer.into()]);
        let request = PROXY.post_to(&masked).header("Request-Range", "bytes=7-14");
        let response = request.header("Range", "bytes=7-14").json(&json!({})).send();
        response.expect_error(502, StatedDelivery::Answered);
        assert!(!response.text().contains("4242"), "{}", response.text());
        for name in ["range", "request-range"] {
            assert_eq!(host.last_request().header(name), None, "{name}");
        }
    }
    // Without a mask, a part is an answer like others.
    let plain = PROXY.create_proxy_to(&host, json!({}));
    host.set_behaviors(&[partial().into()]);
    let request = PROXY.post_to(&plain).header("Range", "bytes=7-14").json(&json!({}));
    assert_eq!(request.send().expect_answer(206).text(), "42424242");
    assert_eq!(host.last_request().header("range"), Some("bytes=7-14"));
}
