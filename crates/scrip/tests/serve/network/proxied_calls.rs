//! Settings of proxied calls: loopback destinations, the vault's own listeners, and the time limit.

use scrip_testing::{
    destination::{DestinationServer, behavior::DestinationBehavior},
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::http_client::{BlockingClient, ClientResponse},
};
use serde_json::json;

use crate::SCRIP;

/// Sends a call through the ephemeral proxy. The recorder of the harness is not in between, because
/// answers of destinations are not in the OpenAPI document.
fn call(server: &RunningServer, key: &str, url: &str) -> ClientResponse {
    let request = BlockingClient::default().post(format!("{}/proxy", server.own_url));
    request.api_key(key).header("BT-PROXY-URL", url).json(&json!({ "a": 1 })).send()
}

/// Starts the server and waits until its vault is unsealed.
fn serve_ready(harness: &ProcessHarness) -> RunningServer {
    let server = harness.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200), "{}", harness.log());
    server
}

#[track_caller]
fn expect_not_sent(response: &ClientResponse) {
    assert!([400, 403].contains(&response.status), "{response:?}");
    expect_stated_not_sent(response);
}

fn expect_stated_not_sent(response: &ClientResponse) {
    assert_eq!(response.json()["proxy_error"]["errors"]["proxy"], json!(["not_sent"]));
}

fn with_loopback() -> (ProcessHarness, String) {
    let (harness, key) = ProcessHarness::with_api_key(SCRIP);
    (harness.with_variable("SCRIP_PROXY_LOOPBACK_HTTP", "true"), key)
}

#[test]
fn loopback_destinations_need_a_setting() {
    let (harness, key) = ProcessHarness::with_api_key(SCRIP);
    let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Echo]);
    let port = host.url("").rsplit(':').next().unwrap().to_owned();
    let urls = [
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.1:{port}/"),
        format!("https://localhost:{port}/"),
    ];
    let server = serve_ready(&harness);
    for url in &urls {
        expect_not_sent(&call(&server, &key, url));
    }
    assert_eq!(host.connections(), 0);
    drop(server);
    let harness = harness.with_variable("SCRIP_PROXY_LOOPBACK_HTTP", "true");
    let server = serve_ready(&harness);
    for url in &urls[..2] {
        let response = call(&server, &key, url);
        assert_eq!(response.status, 200, "{url}: {response:?}");
    }
    assert_eq!(host.request_count(), 2);
}

/// Also in development: a request of the vault to itself would come from a trusted address.
#[test]
fn listeners_of_the_vault_are_never_destinations() {
    let (harness, key) = with_loopback();
    let harness = harness.with_variable("SCRIP_METRICS_LISTEN", "127.0.0.1:0");
    let server = serve_ready(&harness);
    let metrics = server.metrics.clone().expect("a metrics listener");
    for url in [server.own_url.clone(), server.own_url.replace("127.0.0.1", "localhost"), metrics] {
        let url = url.trim_end_matches("/metrics").to_owned();
        let response = call(&server, &key, &format!("{url}/healthz"));
        assert_eq!(response.status, 502, "{url}: {response:?}");
        expect_stated_not_sent(&response);
    }
}

#[test]
fn time_limit_of_the_operator_applies_to_ephemeral_calls() {
    let (harness, key) = with_loopback();
    let harness = harness.with_variable("SCRIP_PROXY_TIMEOUT_SECONDS", "1");
    let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Silent]);
    let server = serve_ready(&harness);
    let response = call(&server, &key, &host.url(""));
    assert_eq!(response.status, 408, "{response:?}");
    assert_eq!(response.json()["proxy_error"]["errors"]["proxy"], json!(["maybe_sent"]));
    assert_eq!(response.header("bt-proxy-destination-status"), None);
    assert_eq!(host.request_count(), 1);
}

#[test]
fn body_limit_of_the_operator_applies() {
    let (harness, key) = with_loopback();
    let harness = harness.with_variable("SCRIP_PROXY_BODY_MAX", "2048");
    let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Echo]);
    let server = serve_ready(&harness);
    for (length, status) in [(2048, 200), (2049, 413)] {
        let request = BlockingClient::default().post(format!("{}/proxy", server.own_url));
        let request = request.api_key(&key).header("BT-PROXY-URL", host.url(""));
        let response = request.header("Content-Type", "text/plain").body("x".repeat(length)).send();
        assert_eq!(response.status, status, "{response:?}");
    }
    assert_eq!(host.request_count(), 1);
}

/// The operator maps a host name to a proxy while the server runs.
#[test]
fn command_maps_a_host_to_a_proxy() {
    let (harness, _) = with_loopback();
    let keys = std::fs::read_to_string(harness.data().join("dev-keys.json")).unwrap();
    let keys: serde_json::Value = serde_json::from_str(&keys).unwrap();
    let management = keys["keys"]["management"].as_str().unwrap();
    let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Echo]);
    let server = serve_ready(&harness);
    let body =
        json!({ "name": "inbound", "destination_url": host.url("/in"), "require_auth": false });
    let created = server.request("POST", "/proxies").api_key(management).json(&body).send();
    let created = created.expect_status(201).json();
    let output =
        harness.run(&["proxy", "host", "add", "pay.shop.example", created["id"].as_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let send = || {
        let request = BlockingClient::default().post(format!("{}/proxy/x", server.own_url));
        request.header("Host", "pay.shop.example").json(&json!({ "a": 1 })).send()
    };
    let is_mapped = || send().status == 200;
    assert!(becomes_true(is_mapped), "{:?}", send());
    assert!(host.requests().iter().all(|it| it.target == "/in/x"));
    let output = harness.run(&["proxy", "host", "list"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("pay.shop.example"), "{output:?}");
}

#[test]
fn failed_call_is_logged_with_its_trace_id_and_proxy_and_without_data() {
    let (harness, key) = with_loopback();
    let keys = std::fs::read_to_string(harness.data().join("dev-keys.json")).unwrap();
    let keys: serde_json::Value = serde_json::from_str(&keys).unwrap();
    let management = keys["keys"]["management"].as_str().unwrap();
    let server = serve_ready(&harness);
    let find_line = |response: &ClientResponse| {
        let trace = response.header("bt-trace-id").unwrap();
        let is_line = |it: &str| it.contains("a proxied call failed") && it.contains(trace);
        assert!(becomes_true(|| harness.log().lines().any(is_line)), "{}", harness.log());
        let log = harness.log();
        let line = log.lines().find(|it| is_line(it)).unwrap();
        serde_json::from_str::<serde_json::Value>(line).unwrap()
    };
    // A port on which nothing listens.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{unused}/hidden-path?hidden=4242424242424242");
    let response = call(&server, &key, &url);
    assert_eq!(response.status, 502, "{response:?}");
    let line = find_line(&response);
    assert_eq!((&line["level"], &line["reason"]), (&json!("WARN"), &json!("connect")), "{line}");
    assert_eq!((&line["status"], &line["delivery"]), (&json!(502), &json!("not_sent")), "{line}");
    assert_eq!(line["cause"], "the connection to the destination failed: connection refused");
    assert!(line["advice"].as_str().unwrap().contains("firewall"), "{line}");
    assert!(line.get("proxy").is_none(), "{line}");

    let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Echo]);
    let append = json!([{"type": "append_json", "options": {"location": "$.a", "value": "v"}}]);
    let body = json!({"name": "logged", "destination_url": host.url("/hidden-path?hidden=1"),
        "response_transforms": append});
    let created = server.request("POST", "/proxies").api_key(management).json(&body).send();
    let created = created.expect_status(201).json();
    let request = BlockingClient::default().post(format!("{}/proxy", server.own_url));
    let request = request.api_key(&key).header("BT-PROXY-KEY", created["key"].as_str().unwrap());
    let response = request.header("Content-Type", "text/plain").body("hidden-body").send();
    assert_eq!(response.status, 502, "{response:?}");
    let line = find_line(&response);
    assert_eq!((&line["reason"], &line["proxy"]), (&json!("transform"), &created["id"]), "{line}");
    assert_eq!(line["delivery"], "answered");
    let response = call(&server, &key, "https://destination.example:8443/hidden-path?hidden=1");
    assert_eq!(response.status, 403, "{response:?}");
    assert_eq!(find_line(&response)["reason"], "guard");
    let log = harness.log();
    assert!(!log.contains("hidden") && !log.contains("4242"), "{log}");
}
