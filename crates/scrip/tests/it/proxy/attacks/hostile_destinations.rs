//! An attacker who controls the destination: its answer must not run script on the origin of the
//! vault, split the response, or imitate the vault.

use scrip_testing::destination::behavior::{CannedResponse, DestinationBehavior};
use serde_json::json;

use crate::proxy::harness::{DESTINATION_STATUS, PROXY, ProxyResponse};

const SANDBOX: &str = "sandbox; default-src 'none'";

#[track_caller]
fn call(answer: impl Into<DestinationBehavior>) -> ProxyResponse {
    let host = PROXY.destinations.host(&[answer.into()]);
    let response = PROXY.post(&host.url("")).json(&json!({})).send();
    assert_eq!(host.request_count(), 1);
    response
}

/// All values of a header of the response.
fn values(response: &ProxyResponse, name: &str) -> Vec<String> {
    let values = response.response.headers.get_all(name).iter();
    values.map(|it| it.to_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn expect_sandbox(response: &ProxyResponse) {
    assert!(values(response, "content-security-policy").contains(&SANDBOX.to_owned()));
    assert!(values(response, "x-content-type-options").contains(&"nosniff".to_owned()));
}

#[test]
fn script_of_a_destination_cannot_run_on_the_origin_of_the_vault() {
    let script = "<script>fetch('/tokens')</script>";
    for status in [200, 400, 404, 500] {
        let response = call(CannedResponse::new(status, "text/html", script)).expect_answer(status);
        expect_sandbox(&response);
        assert_eq!(response.text(), script);
    }
    let response = call(
        CannedResponse::new(200, "text/html", script)
            .with_header("Content-Security-Policy", "default-src *; script-src * 'unsafe-inline'")
            .with_header("X-Content-Type-Options", "none"),
    );
    // Two policies apply together: a browser obeys the strictest.
    expect_sandbox(&response.expect_answer(200));
}

#[test]
fn cookies_and_site_data_of_the_vault_are_safe() {
    let response = CannedResponse::new(200, "text/plain", "x")
        .with_header("Set-Cookie", "session=attacker; Path=/")
        .with_header("Set-Cookie", "second=1")
        .with_header("Clear-Site-Data", "\"*\"")
        .with_header("X-Kept", "1");
    let response = call(response).expect_answer(200);
    for name in ["set-cookie", "clear-site-data"] {
        assert_eq!(values(&response, name), [""; 0], "{name}");
    }
    assert_eq!(response.header("x-kept"), Some("1"));
}

/// The destination must not decide which pages read answers of the vault.
#[test]
fn cross_origin_headers_of_a_destination_are_not_those_of_the_vault() {
    let response = CannedResponse::new(200, "text/plain", "x")
        .with_header("Access-Control-Allow-Origin", "https://attacker.example")
        .with_header("Access-Control-Allow-Credentials", "true")
        .with_header("Access-Control-Expose-Headers", "x-secret")
        .with_header("Strict-Transport-Security", "max-age=0")
        .with_header("Service-Worker-Allowed", "/");
    let response = call(response).expect_answer(200);
    assert!(
        !values(&response, "access-control-allow-origin")
            .contains(&"https://attacker.example".to_owned())
    );
    assert_eq!(values(&response, "access-control-allow-credentials"), [""; 0]);
    assert!(values(&response, "access-control-allow-origin").len() <= 1);
    assert!(values(&response, "access-control-expose-headers").len() <= 1);
    assert_eq!(values(&response, "service-worker-allowed"), [""; 0]);
}

#[test]
fn redirect_is_passed_on_and_never_followed() {
    let inner = PROXY.destinations.host(&[]);
    let vault = format!("http://{}/permissions", PROXY.server.address);
    for (status, location) in [
        (301, "http://127.0.0.1/".to_owned()),
        (302, inner.url("/")),
        (303, vault),
        (307, "http://169.254.169.254/latest/meta-data/".to_owned()),
        (308, "file:///etc/passwd".to_owned()),
    ] {
        let answer =
            CannedResponse::new(status, "text/plain", "").with_header("Location", &location);
        let response = call(answer).expect_answer(status);
        assert_eq!(response.header("location"), Some(location.as_str()));
    }
    assert_eq!(inner.request_count(), 0);
}

/// Only the vault says whether the destination answered and what the request is called.
#[test]
fn destination_cannot_claim_headers_of_the_vault() {
    let response = CannedResponse::new(500, "application/json", "{}")
        .with_header("BT-PROXY-DESTINATION-STATUS", "200")
        .with_header("BT-TRACE-ID", "attacker")
        .with_header("BT-IDEMPOTENCY-REPLAYED", "true")
        .with_header("bt-anything", "x")
        .with_header("RateLimit-Remaining", "0");
    let response = call(response).expect_answer(500);
    assert_eq!(values(&response, DESTINATION_STATUS), ["500"]);
    assert_eq!(values(&response, "bt-trace-id").len(), 1);
    assert_ne!(response.header("bt-trace-id"), Some("attacker"));
    let names = response.response.headers.keys().map(ToString::to_string);
    let claimed: Vec<_> = names
        .filter(|it| it.starts_with("bt-") && it != DESTINATION_STATUS && it != "bt-trace-id")
        .collect();
    assert!(claimed.is_empty(), "{claimed:?}");
}

/// An answer that imitates an error of the vault has the header that errors before an answer lack.
#[test]
fn imitated_error_is_recognizable() {
    let imitation = json!({"proxy_error": {"errors": {"proxy": ["not_sent"]}, "title": "x",
        "status": 502, "detail": "x"}});
    let answer = DestinationBehavior::json(502, &imitation);
    let response = call(answer).expect_answer(502);
    assert_eq!(response.response.json(), imitation);
}

/// The destination tries to end its response early and add another one.
#[test]
fn response_cannot_be_split() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodyHTTP/1.1 200 OK\r\nX-Second: 1\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX-Second",
        b"HTTP/1.1 200 OK\r\nX-A: b\rX-Second: 1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: b\nX-Second: 1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n X-Second: folded\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 10\r\n\r\nHTTP/1.1 200 OK",
    ] {
        let host = PROXY.destinations.host(&[DestinationBehavior::Raw(bytes.to_vec())]);
        let request = format!(
            "POST /proxy HTTP/1.1\r\nHost: x\r\nBT-API-KEY: {}\r\nBT-PROXY-URL: {}\r\n\
             Content-Length: 0\r\n\r\n",
            PROXY.keys.private,
            host.url("")
        );
        let response = PROXY.server.send_raw(request.as_bytes());
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{response}");
        let head = response.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        let has_second_header = head.lines().any(|it| it.starts_with("x-second"));
        // A bare line feed ends a line for some parsers: then the destination sent two headers.
        let is_bare_line_feed = bytes.windows(3).any(|it| it == b"b\nX");
        assert!(!has_second_header || is_bare_line_feed, "{response}");
    }
}

/// The next answer on a connection must belong to the next request.
#[test]
fn unsolicited_answer_is_not_given_to_the_next_request() {
    let two_answers = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst\
        HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned";
    let host = PROXY.destinations.host(&[
        DestinationBehavior::RawThenSilent(two_answers.to_vec()),
        DestinationBehavior::text(200, "second"),
    ]);
    let proxy = PROXY.create_proxy_to(&host, json!({"timeout": 5}));
    let first = PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    assert_eq!(first.text(), "first");
    let second = PROXY.post_to(&proxy).json(&json!({})).send();
    assert_ne!(second.text(), "poisoned");
    second.expect_answer(200);
}

#[test]
fn answer_to_a_keyless_call_is_sandboxed_too() {
    let answer =
        CannedResponse::new(200, "text/html", "<script></script>").with_header("Set-Cookie", "a=b");
    let host = PROXY.destinations.host(&[answer.into()]);
    let proxy = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    let path = format!("/page?bt-proxy-key={}", proxy.key);
    let response = PROXY.request("GET", &path).send().expect_answer(200);
    expect_sandbox(&response);
    assert_eq!(response.header("set-cookie"), None);
}

/// The vault's own errors must not repeat what an attacker sent.
#[test]
fn errors_do_not_repeat_input() {
    let marker = "attacker-marker-4111111111111111";
    let requests = [
        PROXY.post(&format!("https://{marker}/")),
        PROXY.post("https://host.destination.test:1/").header("X", marker),
        PROXY.request("POST", "").api_key(&PROXY.keys.private).proxy_key(marker),
        PROXY.post("https://host.destination.test/").header("X", &format!("{{{{ {marker} |")),
        PROXY
            .post("https://host.destination.test/")
            .body("text/plain", format!("{{{{ '{marker}' | {marker} }}}}")),
    ];
    for request in requests {
        let response = request.send();
        assert!(response.status() >= 400, "{}", response.text());
        assert!(response.text().contains("not_sent"), "{}", response.text());
        assert!(!response.text().contains("4111111111111111"), "{}", response.text());
        assert_eq!(response.destination_status(), None);
    }
}
