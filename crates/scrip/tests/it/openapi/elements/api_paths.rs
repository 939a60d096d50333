//! The API below `/api` is the same API.

use serde_json::json;

use crate::{
    harness::server::{ACME, SERVER, TestServer, card_body, text_field, unique_card_number},
    proxy::harness::PROXY,
};

#[test]
fn operations_below_api_have_the_same_responses() {
    let body = card_body(&unique_card_number());
    let created = SERVER.post(&ACME.private, "/api/tokens", &body).expect_status(201);
    let id = text_field(&created, "id");
    let token = SERVER.get_path(&ACME.private, &format!("/tokens/{id}")).expect_status(200);
    for path in [format!("/api/tokens/{id}"), format!("/api/tokens/{id}/")] {
        assert_eq!(SERVER.get_path(&ACME.private, &path).expect_status(200), token);
    }
    let list = SERVER.get_path(&ACME.private, "/api/v2/tokens?size=1").expect_status(200);
    assert_eq!(list["data"].as_array().map(Vec::len), Some(1));
    SERVER.request("GET", "/api/tokens").send().expect_problem(401, "BT-API-KEY");
    let root = SERVER.request("GET", "/api").send();
    assert_eq!((root.status, root.headers["location"].as_str()), (302, "/docs"));
}

#[test]
fn api_path_is_removed_once() {
    for path in
        ["/api/api/tokens", "/api/api", "/apitokens", "/API/tokens", "/api/elements/client.js"]
    {
        SERVER.get_path(&ACME.private, path).expect_problem(404, "Not found.");
    }
    SERVER.get_path(&ACME.private, "/api/documents").expect_problem(404, "documents");
}

#[test]
fn idempotency_key_is_the_same_below_api() {
    let body = card_body(&unique_card_number());
    let create = |path: &str| {
        let request = SERVER.request("POST", path).key(&ACME.private);
        let request = request.idempotency_key("one create, two paths").json(&body);
        text_field(&request.send().expect_status(201), "id")
    };
    assert_eq!(create("/tokens"), create("/api/tokens"));
}

#[test]
fn audit_record_of_a_rejected_request_names_the_operation() {
    let (server, keys) = TestServer::start_with_tenant();
    server.get_path(&keys.public, "/api/logs").expect_status(403);
    let logs = server.get_path(&keys.management, "/logs").expect_status(200);
    let operations: Vec<_> =
        logs["data"].as_array().unwrap().iter().map(|it| it["operation"].clone()).collect();
    assert!(operations.contains(&json!("list_logs")), "{logs}");
}

#[test]
fn proxied_call_below_api_has_the_path_of_its_destination() {
    let host = PROXY.destinations.host(&[]);
    for (path, target) in [
        ("/api/proxy", "/"),
        ("/api/proxy/charges/?a=b%20c", "/charges/?a=b%20c"),
        ("/api/proxy/api/proxy", "/api/proxy"),
    ] {
        let request = PROXY.request_at("POST", path).api_key(&PROXY.keys.private);
        request.url(&host.url("")).json(&json!({"a": 1})).send().expect_answer(200);
        assert_eq!(host.last_request().target, target, "{path}");
    }
    let count = host.request_count();
    let request = PROXY.request_at("POST", "/api/proxy/{{x}}").api_key(&PROXY.keys.private);
    assert_eq!(request.url(&host.url("")).json(&json!({})).send().status(), 400);
    assert_eq!(host.request_count(), count);
}
