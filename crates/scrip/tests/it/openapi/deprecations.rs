//! What the interface has given up.

use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Permission, TenantSettings},
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TestResponse, TestServer, card_body, text_field, unique_card_number,
};

/// The three headers of a deprecated operation, in an answer that a browser can read them from.
#[track_caller]
pub(crate) fn expect_deprecated(reply: &TestResponse, since: &str, sunset: &str, successor: &str) {
    assert_eq!(reply.headers["deprecation"], since);
    assert_eq!(reply.headers["sunset"], sunset);
    let link = format!("<{successor}>; rel=\"successor-version\"");
    assert_eq!(reply.headers["link"], link);
    let exposed = reply.headers["access-control-expose-headers"].split(", ");
    let exposed: Vec<_> = exposed.collect();
    for name in ["deprecation", "sunset", "link"] {
        assert!(exposed.contains(&name), "{name} is not in {exposed:?}");
    }
}

#[track_caller]
fn expect_not_deprecated(reply: &TestResponse) {
    for name in ["deprecation", "sunset", "link"] {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
}

#[test]
fn regenerate_key_is_410_and_links_to_create_key() {
    let regenerate = |path: &str, key: &str| SHARED_SERVER.request("POST", path).key(key).send();
    let marked = |reply: &TestResponse, successor: &str| {
        expect_deprecated(reply, "@1713312000", "Thu, 17 Oct 2024 00:00:00 GMT", successor);
    };
    let application =
        SHARED_SERVER.get_path(&ACME.management, "/applications/key").expect_status(200);
    let keys = format!("/applications/{}/keys", text_field(&application, "id"));
    let path = format!("/applications/{}/regenerate", text_field(&application, "id"));
    for path in [path.clone(), format!("{path}/")] {
        let gone = regenerate(&path, &ACME.management);
        gone.expect_problem(410, "create another key at /applications/{id}/keys");
        marked(&gone, &keys);
    }
    SHARED_SERVER.get_path(&ACME.management, &keys).expect_status(200);
    // Who is not known is told so, and all the same that there is nothing to come back for.
    let unknown = regenerate(&path, "nobodys");
    unknown.expect_problem(401, "BT-API-KEY");
    marked(&unknown, &keys);
}

#[test]
fn current_operations_send_no_deprecation_headers() {
    expect_not_deprecated(&SHARED_SERVER.get_path(&ACME.management, "/applications"));
    expect_not_deprecated(
        &SHARED_SERVER.create_token(&ACME.private, &json!({"type": "token", "data": 1})),
    );
    expect_not_deprecated(&SHARED_SERVER.get_token(&ACME.private, "nobodys"));
    expect_not_deprecated(&SHARED_SERVER.request("GET", "/nowhere").send());
}

/// What it once could hold, and what it never could.
fn privacy_values() -> [Value; 4] {
    let whole =
        json!({"classification": "general", "impact_level": "low", "restriction_policy": "redact"});
    [whole, json!({"restriction_policy": 7}), json!("open"), json!(null)]
}

#[test]
fn privacy_is_ignored_in_a_create() {
    for privacy in privacy_values() {
        let mut body = card_body(&unique_card_number());
        let plain = SHARED_SERVER.create_token_ok(&ACME.private, &body);
        body["privacy"] = privacy;
        let created = SHARED_SERVER.create_token_ok(&ACME.private, &body);
        assert!(created.get("privacy").is_none(), "{created}");
        assert_eq!(created["containers"], json!(["/pci/high/"]));
        let read =
            SHARED_SERVER.get_token(&ACME.private, &text_field(&created, "id")).expect_status(200);
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(read[name], plain[name], "{name}");
        }
        assert!(read.get("privacy").is_none(), "{read}");
    }
}

#[test]
fn privacy_is_ignored_in_an_update() {
    let before = SHARED_SERVER.create_token_ok(&ACME.private, &card_body(&unique_card_number()));
    let id = text_field(&before, "id");
    for privacy in privacy_values() {
        let patch = json!({"privacy": privacy, "metadata": {"patched": "yes"}});
        let after = SHARED_SERVER.patch_token(&ACME.private, &id, &patch).expect_status(200);
        assert_eq!(after["metadata"], json!({"patched": "yes"}));
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(after[name], before[name], "{name}");
        }
        assert!(after.get("privacy").is_none(), "{after}");
    }
}

/// What was deprecated of them was never here; nor are they, yet.
#[test]
fn reactor_and_proxy_paths_are_404() {
    for path in ["/reactors", "/reactors/x/react", "/reactors/x/react-async", "/proxies"] {
        let body = json!({"callback_url": "https://shop.example", "request_reactor_id": "x"});
        SHARED_SERVER.post(&ACME.management, path, &body).expect_problem(404, "path");
    }
}

const SINCE: &str = "@1735862400";
const SUNSET: &str = "Sat, 01 Mar 2025 00:00:00 GMT";

#[track_caller]
fn expect_v1_list(reply: &TestResponse) {
    expect_deprecated(reply, SINCE, SUNSET, "/v2/tokens");
}

#[track_caller]
fn expect_v1_search(reply: &TestResponse) {
    expect_deprecated(reply, SINCE, SUNSET, "/v2/tokens/search");
}

fn key_without(permission: Permission) -> String {
    let kind = ApplicationKind::Private;
    let all = Permission::ALL.iter().copied();
    let held: Vec<_> = all.filter(|it| it.kinds().contains(&kind) && *it != permission).collect();
    SHARED_SERVER.key_with_permissions(&ACME.tenant, kind, &held)
}

#[test]
fn every_list_tokens_v1_response_has_deprecation_headers() {
    let list = |key: &str, query: &str| SHARED_SERVER.get_path(key, &format!("/tokens{query}"));
    for query in ["", "/", "?size=1", "?page=2&size=1", "?id=nobodys"] {
        let found = list(&ACME.private, query);
        found.expect_status(200);
        expect_v1_list(&found);
    }
    let bad = list(&ACME.private, "?size=0");
    bad.expect_problem(400, "size");
    expect_v1_list(&bad);
    let unknown = list("nobodys", "");
    unknown.expect_problem(401, "BT-API-KEY");
    expect_v1_list(&unknown);
    for key in [&ACME.public, &key_without(Permission::TokenRead)] {
        let rejected = list(key, "");
        rejected.expect_problem(403, "token:read");
        expect_v1_list(&rejected);
    }
    let second = SHARED_SERVER.get_path(&ACME.private, "/v2/tokens");
    second.expect_status(200);
    expect_not_deprecated(&second);
    expect_not_deprecated(&SHARED_SERVER.get_path(&ACME.private, "/v2/tokens?size=0"));
}

#[test]
fn every_search_tokens_v1_response_has_deprecation_headers() {
    let body = json!({"query": "id:nobodys"});
    let search = |key: &str, body: &Value| SHARED_SERVER.post(key, "/tokens/search", body);
    let found = search(&ACME.private, &body);
    found.expect_status(200);
    expect_v1_search(&found);
    for (body, attribute) in [
        (json!({"query": "id:nobodys", "size": 0}), "size"),
        (json!({"query": "type:card"}), "query"),
        (json!({"query": 7}), "query"),
    ] {
        let bad = search(&ACME.private, &body);
        bad.expect_problem(400, attribute);
        expect_v1_search(&bad);
    }
    let form =
        SHARED_SERVER.request("POST", "/tokens/search").key(&ACME.private).body("text/plain", "{}");
    let form = form.send();
    form.expect_problem(415, "application/json");
    expect_v1_search(&form);
    let unknown = search("nobodys", &body);
    unknown.expect_problem(401, "BT-API-KEY");
    expect_v1_search(&unknown);
    let rejected = search(&key_without(Permission::TokenSearch), &body);
    rejected.expect_problem(403, "token:search");
    expect_v1_search(&rejected);
    // Twice with one idempotency key: replayed or not, it says so.
    for _ in 0..2 {
        let once = SHARED_SERVER
            .request("POST", "/tokens/search")
            .key(&ACME.private)
            .idempotency_key("v1-search");
        let once = once.json(&body).send();
        once.expect_status(200);
        expect_v1_search(&once);
    }
    let body = json!({"query": "type:card"});
    let second = SHARED_SERVER.post(&ACME.private, "/v2/tokens/search", &body);
    second.expect_status(200);
    expect_not_deprecated(&second);
}

#[test]
fn disabled_operation_is_410_and_others_still_work() {
    let search = json!({"query": "id:nobodys"});
    for off in [Operation::ListTokensV1, Operation::SearchTokensV1] {
        let server = TestServer::start_with(|app| app.disabled_operations = vec![off]);
        let keys = server.create_test_tenant(TenantSettings::default());
        let list = server.get_path(&keys.private, "/tokens");
        expect_v1_list(&list);
        let found = server.post(&keys.private, "/tokens/search", &search);
        expect_v1_search(&found);
        if off == Operation::ListTokensV1 {
            list.expect_problem(410, "GET /v2/tokens");
            found.expect_status(200);
        } else {
            list.expect_status(200);
            found.expect_problem(410, "POST /v2/tokens/search");
        }
        // Their paths have others, and they have successors.
        let created = server.create_token_ok(&keys.private, &json!({"type": "token", "data": 1}));
        server.get_token(&keys.private, &text_field(&created, "id")).expect_status(200);
        server.get_path(&keys.private, "/v2/tokens").expect_status(200);
        server
            .post(&keys.private, "/v2/tokens/search", &json!({"query": "type:token"}))
            .expect_status(200);
    }
}

#[test]
fn disabled_operation_is_410_after_authentication_and_before_the_body() {
    let server = TestServer::start_with(|app| {
        app.disabled_operations = vec![Operation::ListTokensV1, Operation::SearchTokensV1];
    });
    let keys = server.create_test_tenant(TenantSettings::default());
    for key in [None, Some(""), Some("nobodys")] {
        for (method, path) in [("GET", "/tokens"), ("POST", "/tokens/search")] {
            let ask = server.request(method, path);
            let ask = if let Some(key) = key { ask.key(key) } else { ask };
            ask.send().expect_problem(401, "BT-API-KEY");
        }
    }
    server.get_path(&keys.public, "/tokens").expect_problem(403, "token:read");
    server.post(&keys.public, "/tokens/search", &json!({})).expect_problem(403, "token:search");
    server.get_path(&keys.private, "/tokens?size=0").expect_problem(410, "GET /v2/tokens");
    for (content_type, body) in [("text/plain", "{"), ("application/json", "{")] {
        let ask =
            server.request("POST", "/tokens/search").key(&keys.private).idempotency_key("gone");
        ask.body(content_type, body).send().expect_problem(410, "POST /v2/tokens/search");
    }
    // The idempotency key was not used up.
    let body = json!({"id": "not-gone", "type": "token", "data": 1});
    let create = server
        .request("POST", "/tokens")
        .key(&keys.private)
        .idempotency_key("gone")
        .json(&body)
        .send();
    assert_eq!(create.expect_status(201)["id"], "not-gone");
}
