//! Which host serves the fields, and what else their host answers.

use scrip_api::app::field_hosting::FieldHosting;
use serde_json::json;

use super::{
    API_HOST, FIELD_HOST, FIELD_KEYS, FIELDS, PAGES, SCRIPTS, production_hosting, request,
};
use crate::{
    harness::server::{SERVER, TestServer},
    proxy::{harness::ProxyHarness, hosts::map_host},
};

/// The document describes the responses of the other hosts.
const NO_ROUTE: &str = "/without-a-route";

#[test]
fn without_an_origin_the_problem_names_the_setting() {
    for path in SCRIPTS.into_iter().chain(PAGES) {
        let response = SERVER.request("GET", path).send();
        response.expect_problem(404, "elements.origin");
        let response = SERVER.request("GET", path).header("Host", "localhost").send();
        response.expect_problem(404, "elements.origin");
    }
}

#[test]
fn fields_are_served_on_the_host_of_their_origin_only() {
    for path in SCRIPTS.into_iter().chain(PAGES) {
        for host in [FIELD_HOST, "Fields.Example", "fields.example:8443"] {
            let response = FIELDS.request("GET", path).header("Host", host).send();
            assert_eq!(response.status, 200, "{host} {path}");
        }
        for host in [API_HOST, "localhost", "127.0.0.1", "x.fields.example", "fields.example.x.y"] {
            let response = FIELDS.request("GET", path).header("Host", host).send();
            response.expect_problem(404, "on the host of elements.origin only");
        }
    }
}

/// The first document of an origin decides about its process, so a page could frame an error first.
#[test]
fn every_response_on_the_field_host_asks_for_a_process_of_its_own() {
    let header = "origin-agent-cluster";
    let documented = SCRIPTS.into_iter().chain(PAGES).chain(["/api/tokens", "/healthz"]);
    let responses = documented.map(|path| (path, request("GET", path).send()));
    let absent = ["/without-a-route", "/tokens", "/api/docs"];
    let absent = absent.map(|path| (path, request("GET", path).send_for("GET", NO_ROUTE)));
    for (path, response) in responses.chain(absent) {
        assert_eq!(response.headers.get(header).map(String::as_str), Some("?1"), "{path}");
    }
    let other = FIELDS.request("GET", "/healthz").header("Host", API_HOST).send();
    assert_eq!(other.headers.get(header), None);
}

#[test]
fn pages_name_the_one_origin_in_which_their_scripts_run() {
    let origin = format!("name=\"scrip-field-origin\" content=\"https://{FIELD_HOST}\"");
    for path in PAGES {
        for host in [FIELD_HOST, "Fields.Example", "fields.example:8443"] {
            let response = FIELDS.request("GET", path).header("Host", host).send();
            assert!(response.text.contains(&origin), "{host} {path}");
        }
    }
}

#[test]
fn field_host_has_the_api_below_its_path_only() {
    let key = &FIELD_KEYS.private;
    request("GET", "/api/applications/key").key(key).send().expect_status(200);
    for path in
        ["/applications/key", "/tokens", "/proxy", "/docs", "/", "/metrics", "/openapi.json"]
    {
        let response = request("GET", path).key(key).send_for("GET", NO_ROUTE);
        response.expect_problem(404, "the API of this host is below /api");
        let other = FIELDS.request("GET", path).header("Host", API_HOST).key(key).send();
        assert!(!other.text.contains("below /api"), "{path}");
    }
    for path in ["/healthz", "/api/healthz", "/readyz", "/api/openapi.json"] {
        assert_eq!(request("GET", path).send().status, 200, "{path}");
    }
}

#[test]
fn field_host_has_no_pages_and_callbacks_of_the_api() {
    for path in
        ["/api", "/api/", "/api/docs", "/api/pages/method.html", "/api/pages/challenge.html"]
    {
        let response = request("GET", path).send_for("GET", NO_ROUTE);
        response.expect_problem(404, "use the host of the API for its pages");
        let other = FIELDS.request("GET", path).header("Host", API_HOST).send();
        assert!([200, 302].contains(&other.status), "{path}");
    }
    let path = "/api/3ds/sessions/018f0000-0000-7000-8000-000000000000/challenge-notification";
    let form = request("POST", path).body("application/x-www-form-urlencoded", "cres=x");
    assert_eq!(form.send_for("POST", NO_ROUTE).status, 404);
}

#[test]
fn development_serves_fields_and_api_on_loopback_hosts() {
    let server = TestServer::start_with(|setup| {
        setup.settings.field_hosting = FieldHosting { origin: None, is_on_loopback: true };
    });
    for host in ["localhost:4242", "127.0.0.1:4242", "[::1]:4242", "shop.localhost"] {
        for path in [SCRIPTS[0], PAGES[0], "/docs", "/api/docs", "/healthz", "/api/openapi.json"] {
            let response = server.request("GET", path).header("Host", host).send();
            assert_eq!(response.status, 200, "{host} {path}");
        }
        // A developer may open the server by each of its names.
        for path in PAGES {
            let page = server.request("GET", path).header("Host", host).send().text;
            assert!(page.contains("name=\"scrip-field-origin\" content=\"\""), "{host} {path}");
        }
    }
    for host in ["vault.example", "127.0.0.1.example"] {
        let response = server.request("GET", SCRIPTS[0]).header("Host", host).send();
        response.expect_problem(404, "elements.origin");
    }
}

fn start_proxy_harness() -> ProxyHarness {
    ProxyHarness::start_with(|setup, _| setup.settings.field_hosting = production_hosting())
}

#[test]
fn proxied_call_on_the_field_host_needs_a_fetch_request() {
    let harness = start_proxy_harness();
    let host = harness.destinations.host(&[]);
    let call = |path: &str, fetch_headers: &[&str]| {
        let request = harness.request_at("POST", path).header("Host", FIELD_HOST);
        let request =
            fetch_headers.iter().fold(request, |it, value| it.header("Sec-Fetch-Dest", value));
        request.api_key(&harness.keys.private).url(&host.url("")).json(&json!({"a": 1})).send()
    };
    for fetch_headers in
        [&[][..], &["document"], &["script"], &["iframe"], &["Empty"], &[""], &["empty", "script"]]
    {
        let response = call("/api/proxy/x", fetch_headers);
        let error = response.expect_not_sent(403);
        assert!(error["detail"].as_str().unwrap().contains("Sec-Fetch-Dest: empty"), "{error}");
        assert_eq!(response.header("content-security-policy"), Some("sandbox; default-src 'none'"));
    }
    assert_eq!(host.request_count(), 0);
    let answer = call("/api/proxy/x", &["empty"]).expect_answer(200);
    assert_eq!(answer.header("content-security-policy"), Some("sandbox; default-src 'none'"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(host.last_request().target, "/x");
    assert_eq!(call("/proxy/x", &["empty"]).status(), 404);
    assert_eq!(host.request_count(), 1);
    // The host of the API has no such rule.
    for path in ["/proxy/y", "/api/proxy/y"] {
        let request = harness.request_at("POST", path).header("Host", API_HOST);
        let request = request.api_key(&harness.keys.private).url(&host.url(""));
        request.json(&json!({"a": 1})).send().expect_answer(200);
        assert_eq!(host.last_request().target, "/y");
    }
}

#[test]
fn host_of_a_proxy_cannot_replace_the_field_host() {
    let harness = start_proxy_harness();
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy(&host.url("/base"), json!({"require_auth": false}));
    map_host(&harness, &proxy, FIELD_HOST);
    for path in SCRIPTS.into_iter().chain(PAGES) {
        let response = harness.request_at("GET", path).header("Host", FIELD_HOST).send();
        assert_eq!(response.status(), 200, "{path}");
    }
    assert_eq!(harness.request_at("GET", "/x").header("Host", FIELD_HOST).send().status(), 404);
    assert_eq!(host.request_count(), 0);
}

/// A proxy host has every path of its destination.
#[test]
fn host_of_a_proxy_keeps_the_paths_of_fields_and_api() {
    let harness = start_proxy_harness();
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy(&host.url("/base"), json!({"require_auth": false}));
    map_host(&harness, &proxy, "pay.shop.example");
    for path in ["/elements/client.js", "/api/tokens", "/api", "/api/x/", "/api/proxy/x"] {
        let request = harness.request_at("GET", path).header("Host", "pay.shop.example");
        request.send().expect_answer(200);
        assert_eq!(host.last_request().target, format!("/base{path}"));
    }
}
