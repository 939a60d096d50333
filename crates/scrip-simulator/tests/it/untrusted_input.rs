//! Untrusted input in pages and requests.

use scrip_testing::requests::http_client::BlockingClient;
use serde_json::json;

use crate::harness::{SimulatorHarness, acs_path, creq, merge};

const CARD: &str = "4200000000000004";
const SCRIPT: &str = "\"><script>alert(1)</script>'&";

#[test]
fn merchant_name_is_escaped_in_the_page() {
    let harness = SimulatorHarness::start();
    let request = merge(harness.areq(CARD), &json!({ "merchantName": SCRIPT }));
    let ares = harness.send_message("visa", &request);
    let page = harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
    assert!(page.text.contains("&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&#39;&amp;"));
    assert!(!page.text.contains("<script"));
}

#[test]
fn notification_url_is_escaped_and_limits_form_action() {
    let harness = SimulatorHarness::start();
    let url = "https://vault.example/'onload='x'?a=1&b=</form>";
    let erro = harness
        .send_message("visa", &merge(harness.areq(CARD), &json!({ "notificationURL": url })));
    assert_eq!(erro["errorDetail"], "notificationURL");
    let url = "https://vault.example/'onload='x'?a=1&b=2";
    let ares = harness
        .send_message("visa", &merge(harness.areq(CARD), &json!({ "notificationURL": url })));
    harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
    let last = harness.press_button(&ares, &[("action", "cancel")]);
    let action = "action=\"https://vault.example/&#39;onload=&#39;x&#39;?a=1&amp;b=2\"";
    assert!(last.text.contains(action));
    assert!(last.policy.contains("form-action 'self' https://vault.example;"));
}

#[test]
fn submitted_form_values_are_not_echoed() {
    let harness = SimulatorHarness::start();
    let (ares, _) = harness.start_challenge("visa", CARD);
    for fields in [[("action", "submit"), ("code", SCRIPT)], [("action", SCRIPT), ("code", "1")]] {
        let page = harness.press_button(&ares, &fields);
        assert!(page.status == 200 && !page.text.contains("alert(1)"));
    }
    for id in ["%3Cscript%3E", "x", "..%2f", "%ff"] {
        let page = harness.post_form(&format!("/sim/acs/challenge/{id}"), &[("action", "cancel")]);
        assert!(page.status == 400 && !page.text.to_lowercase().contains("<script"), "{id}");
    }
}

#[test]
fn error_response_does_not_repeat_the_rejected_value() {
    let harness = SimulatorHarness::start();
    let invalid_number = json!({ "acctNumber": "4242424242424242x", "messageVersion": "2.2.0" });
    let response =
        harness.send_message("visa", &merge(harness.areq(CARD), &invalid_number)).to_string();
    assert!(!response.contains("42424242"), "{response}");
}

/// A cross-origin page can post text without a preflight request.
#[test]
fn directory_rejects_other_content_types_than_json() {
    let harness = SimulatorHarness::start();
    let request = harness.areq(CARD).to_string();
    for content_type in
        ["text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"]
    {
        assert_eq!(
            harness.post("/sim/ds/visa", content_type, request.as_bytes()).status,
            415,
            "{content_type}"
        );
    }
    let content_type = "Application/JSON; charset=utf-8";
    assert_eq!(harness.post("/sim/ds/visa", content_type, request.as_bytes()).status, 200);
}

/// A page can resolve its own name to this machine (DNS rebinding); its browser then sends that
/// name as the host.
#[test]
fn foreign_host_header_is_rejected() {
    let harness = SimulatorHarness::start();
    let client = BlockingClient::default();
    for path in ["/sim/behavior", "/sim/behavior/visa", "/sim/acs/root.pem"] {
        let url = format!("{}{path}", harness.simulator.base_url());
        for (host, expected) in [("localhost:1", 200), ("evil.example", 421)] {
            let status = client.get(&url).header("host", host).send().status;
            assert_eq!(status, expected, "{path} with the host {host}");
        }
    }
    let url = format!("{}/sim/acs/challenge", harness.simulator.base_url());
    assert_eq!(client.post(&url).header("host", "evil.example").send().status, 421);
}
