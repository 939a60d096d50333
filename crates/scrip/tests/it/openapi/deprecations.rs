//! Deprecated and removed parts of the API.

use scrip_core::types::{ApplicationKind, Operation, Permission};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SERVER, TestResponse, TestServer, card_body, text_field, unique_card_number,
};

/// Expects the three headers of a deprecated operation, exposed to browsers by CORS.
#[track_caller]
pub(crate) fn expect_deprecated(
    response: &TestResponse,
    since: &str,
    sunset: &str,
    successor: &str,
) {
    assert_eq!(response.headers["deprecation"], since);
    assert_eq!(response.headers["sunset"], sunset);
    let link = format!("<{successor}>; rel=\"successor-version\"");
    assert_eq!(response.headers["link"], link);
    let exposed = response.headers["access-control-expose-headers"].split(", ");
    let exposed: Vec<_> = exposed.collect();
    for name in ["deprecation", "sunset", "link"] {
        assert!(exposed.contains(&name), "{name} is not in {exposed:?}");
    }
}

#[track_caller]
fn expect_not_deprecated(response: &TestResponse) {
    for name in ["deprecation", "sunset", "link"] {
        assert!(!response.headers.contains_key(name), "{name}");
    }
}

#[test]
fn regenerate_key_is_410_and_links_to_create_key() {
    let regenerate = |path: &str, key: &str| SERVER.post_empty(key, path);
    let expect_headers = |response: &TestResponse, successor: &str| {
        expect_deprecated(response, "@1713312000", "Thu, 17 Oct 2024 00:00:00 GMT", successor);
    };
    let application = SERVER.get_path(&ACME.management, "/applications/key").expect_status(200);
    let keys = format!("/applications/{}/keys", text_field(&application, "id"));
    let path = format!("/applications/{}/regenerate", text_field(&application, "id"));
    for path in [path.clone(), format!("{path}/")] {
        let removed_response = regenerate(&path, &ACME.management);
        removed_response.expect_problem(410, "create another key at /applications/{id}/keys");
        expect_headers(&removed_response, &keys);
    }
    SERVER.get_path(&ACME.management, &keys).expect_status(200);
    // An unknown key gets a 401, with the deprecation headers.
    let unknown_key_response = regenerate(&path, "nobodys");
    unknown_key_response.expect_problem(401, "BT-API-KEY");
    expect_headers(&unknown_key_response, &keys);
}

#[test]
fn current_operations_send_no_deprecation_headers() {
    expect_not_deprecated(&SERVER.get_path(&ACME.management, "/applications"));
    expect_not_deprecated(
        &SERVER.create_token(&ACME.private, &json!({"type": "token", "data": 1})),
    );
    expect_not_deprecated(&SERVER.get_token(&ACME.private, "nobodys"));
    expect_not_deprecated(&SERVER.request("GET", "/nowhere").send());
}

/// Returns values that were valid in the past, and invalid values.
fn privacy_values() -> [Value; 4] {
    let whole =
        json!({"classification": "general", "impact_level": "low", "restriction_policy": "redact"});
    [whole, json!({"restriction_policy": 7}), json!("open"), json!(null)]
}

#[test]
fn privacy_attribute_is_ignored_in_a_create() {
    for privacy in privacy_values() {
        let mut body = card_body(&unique_card_number());
        let token_without_privacy = SERVER.create_token_ok(&ACME.private, &body);
        body["privacy"] = privacy;
        let created = SERVER.create_token_ok(&ACME.private, &body);
        assert!(created.get("privacy").is_none(), "{created}");
        assert_eq!(created["containers"], json!(["/pci/high/"]));
        let stored_token =
            SERVER.get_token(&ACME.private, &text_field(&created, "id")).expect_status(200);
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(stored_token[name], token_without_privacy[name], "{name}");
        }
        assert!(stored_token.get("privacy").is_none(), "{stored_token}");
    }
}

#[test]
fn privacy_attribute_is_ignored_in_an_update() {
    let token_before = SERVER.create_token_ok(&ACME.private, &card_body(&unique_card_number()));
    let id = text_field(&token_before, "id");
    for privacy in privacy_values() {
        let patch = json!({"privacy": privacy, "metadata": {"patched": "yes"}});
        let token_after = SERVER.patch_token(&ACME.private, &id, &patch).expect_status(200);
        assert_eq!(token_after["metadata"], json!({"patched": "yes"}));
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(token_after[name], token_before[name], "{name}");
        }
        assert!(token_after.get("privacy").is_none(), "{token_after}");
    }
}

/// Reactors are not implemented, so their deprecated attributes do not exist either.
#[test]
fn reactor_paths_are_404() {
    for path in ["/reactors", "/reactors/x/react", "/reactors/x/react-async"] {
        let body = json!({"callback_url": "https://shop.example"});
        SERVER.post(&ACME.management, path, &body).expect_problem(404, "Not found.");
    }
}

const SINCE: &str = "@1735862400";
const SUNSET: &str = "Sat, 01 Mar 2025 00:00:00 GMT";

#[track_caller]
fn expect_v1_list(response: &TestResponse) {
    expect_deprecated(response, SINCE, SUNSET, "/v2/tokens");
}

#[track_caller]
fn expect_v1_search(response: &TestResponse) {
    expect_deprecated(response, SINCE, SUNSET, "/v2/tokens/search");
}

fn create_key_without(permission: Permission) -> String {
    let kind = ApplicationKind::Private;
    let all_permissions = Permission::ALL.iter().copied();
    let other_permissions: Vec<_> =
        all_permissions.filter(|it| it.kinds().contains(&kind) && *it != permission).collect();
    SERVER.key_with_permissions(&ACME.tenant, kind, &other_permissions)
}

#[test]
fn every_list_tokens_v1_response_has_deprecation_headers() {
    let list_tokens = |key: &str, query: &str| SERVER.get_path(key, &format!("/tokens{query}"));
    for query in ["", "/", "?size=1", "?page=2&size=1", "?id=nobodys"] {
        let response = list_tokens(&ACME.private, query);
        response.expect_status(200);
        expect_v1_list(&response);
    }
    let invalid_response = list_tokens(&ACME.private, "?size=0");
    invalid_response.expect_problem(400, "size");
    expect_v1_list(&invalid_response);
    let unknown_key_response = list_tokens("nobodys", "");
    unknown_key_response.expect_problem(401, "BT-API-KEY");
    expect_v1_list(&unknown_key_response);
    for key in [&ACME.public, &create_key_without(Permission::TokenRead)] {
        let denied_response = list_tokens(key, "");
        denied_response.expect_problem(403, "token:read");
        expect_v1_list(&denied_response);
    }
    let v2_response = SERVER.get_path(&ACME.private, "/v2/tokens");
    v2_response.expect_status(200);
    expect_not_deprecated(&v2_response);
    expect_not_deprecated(&SERVER.get_path(&ACME.private, "/v2/tokens?size=0"));
}

#[test]
fn every_search_tokens_v1_response_has_deprecation_headers() {
    let body = json!({"query": "id:nobodys"});
    let search_tokens = |key: &str, body: &Value| SERVER.post(key, "/tokens/search", body);
    let response = search_tokens(&ACME.private, &body);
    response.expect_status(200);
    expect_v1_search(&response);
    for (body, attribute) in [
        (json!({"query": "id:nobodys", "size": 0}), "size"),
        (json!({"query": "type:card"}), "query"),
        (json!({"query": 7}), "query"),
    ] {
        let invalid_response = search_tokens(&ACME.private, &body);
        invalid_response.expect_problem(400, attribute);
        expect_v1_search(&invalid_response);
    }
    let form = SERVER.request("POST", "/tokens/search").key(&ACME.private).body("text/plain", "{}");
    let form = form.send();
    form.expect_problem(415, "application/json");
    expect_v1_search(&form);
    let unknown_key_response = search_tokens("nobodys", &body);
    unknown_key_response.expect_problem(401, "BT-API-KEY");
    expect_v1_search(&unknown_key_response);
    let denied_response = search_tokens(&create_key_without(Permission::TokenSearch), &body);
    denied_response.expect_problem(403, "token:search");
    expect_v1_search(&denied_response);
    // The first response and its replay both have the headers.
    for _ in 0..2 {
        let once = SERVER
            .request("POST", "/tokens/search")
            .key(&ACME.private)
            .idempotency_key("v1-search");
        let once = once.json(&body).send();
        once.expect_status(200);
        expect_v1_search(&once);
    }
    let body = json!({"query": "type:card"});
    let v2_response = SERVER.post(&ACME.private, "/v2/tokens/search", &body);
    v2_response.expect_status(200);
    expect_not_deprecated(&v2_response);
}

#[test]
fn disabled_operation_is_410_and_others_still_work() {
    let search_body = json!({"query": "id:nobodys"});
    for disabled_operation in [Operation::ListTokensV1, Operation::SearchTokensV1] {
        let server = TestServer::start_with(|app| {
            app.settings.disabled_operations = vec![disabled_operation]
        });
        let keys = server.create_default_tenant();
        let list_response = server.get_path(&keys.private, "/tokens");
        expect_v1_list(&list_response);
        let search_response = server.post(&keys.private, "/tokens/search", &search_body);
        expect_v1_search(&search_response);
        if disabled_operation == Operation::ListTokensV1 {
            list_response.expect_problem(410, "GET /v2/tokens");
            search_response.expect_status(200);
        } else {
            list_response.expect_status(200);
            search_response.expect_problem(410, "POST /v2/tokens/search");
        }
        // Other operations on these paths, and the successors, still work.
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
        app.settings.disabled_operations = vec![Operation::ListTokensV1, Operation::SearchTokensV1];
    });
    let keys = server.create_default_tenant();
    for key in [None, Some(""), Some("nobodys")] {
        for (method, path) in [("GET", "/tokens"), ("POST", "/tokens/search")] {
            let request = server.request(method, path);
            let request = if let Some(key) = key { request.key(key) } else { request };
            request.send().expect_problem(401, "BT-API-KEY");
        }
    }
    server.get_path(&keys.public, "/tokens").expect_problem(403, "token:read");
    server.post(&keys.public, "/tokens/search", &json!({})).expect_problem(403, "token:search");
    server.get_path(&keys.private, "/tokens?size=0").expect_problem(410, "GET /v2/tokens");
    for (content_type, body) in [("text/plain", "{"), ("application/json", "{")] {
        let request =
            server.request("POST", "/tokens/search").key(&keys.private).idempotency_key("gone");
        request.body(content_type, body).send().expect_problem(410, "POST /v2/tokens/search");
    }
    // The rejected request did not reserve the idempotency key.
    let body = json!({"id": "not-gone", "type": "token", "data": 1});
    let create_response = server.post_once(&keys.private, "/tokens", "gone", &body);
    assert_eq!(create_response.expect_status(201)["id"], "not-gone");
}
