//! Search Tokens, by cursor and by page number.

use std::time::Duration;

use scrip_core::types::{ApplicationKind, Permission, Transform};
use serde_json::{Value, json};

use crate::{
    harness::server::{TenantApiKeys, TestServer, text_field},
    tokens::ids,
};

fn create_tenant_with_tokens() -> (TestServer, TenantApiKeys) {
    let (server, keys) = TestServer::start_with_tenant();
    let create_token = |body: &Value| {
        server.clock.advance(Duration::from_secs(1));
        server.create_token_ok(&keys.private, body);
    };
    create_token(&json!({"id": "ssn-1", "type": "social_security_number", "data": "123-45-6789",
        "metadata": {"customer": "7", "Plan": "Gold card"}}));
    create_token(&json!({"id": "ssn-2", "type": "social_security_number", "data": "987-65-6789",
        "containers": ["/other/"], "metadata": {"customer": "8", "Plan": "Gold card"}}));
    create_token(&json!({"id": "card-1", "type": "card", "data": {"number": "4242424242424242"},
        "search_indexes": ["{{ data.number }}", "{{ data.number | last4 }}"]}));
    create_token(&json!({"id": "plain", "type": "token", "data": "123-45-6789"}));
    (server, keys)
}

#[test]
fn cursor_search_finds_tokens_by_every_field() {
    let (server, keys) = create_tenant_with_tokens();
    let search = |query: &str| {
        ids(&server.post(&keys.private, "/v2/tokens/search", &json!({"query": query})))
    };
    assert_eq!(search("data:123-45-6789"), ["ssn-1"]);
    assert_eq!(search(r#"data:"123456789""#), ["ssn-1"]);
    // The order of containers is descending: /pii/high/ before /other/.
    assert_eq!(search("data:6789"), ["ssn-1", "ssn-2"]);
    assert_eq!(search("data:6789 AND container:/other/"), ["ssn-2"]);
    assert_eq!(search(r#"container:"/other/" AND data:6789"#), ["ssn-2"]);
    assert_eq!(search("data:4242"), ["card-1"]);
    assert_eq!(search("data:4242424242424242"), ["card-1"]);
    assert_eq!(search("data:42"), [""; 0]);
    assert_eq!(search("type:social_security_number"), ["ssn-1", "ssn-2"]);
    assert_eq!(search("metadata.customer:7"), ["ssn-1"]);
    assert_eq!(search(r#"metadata.Plan:"Gold card""#), ["ssn-1", "ssn-2"]);
    assert_eq!(search(r#"metadata.Plan:"gold card""#), [""; 0]);
    let fingerprint = text_field(&server.get_token(&keys.private, "card-1").json(), "fingerprint");
    assert_eq!(search(&format!("fingerprint:{fingerprint}")), ["card-1"]);
    // A changed token is found by its new values.
    let patch = json!({"data": {"number": "4000056655665556"}});
    server.patch_token(&keys.private, "card-1", &patch).expect_status(200);
    assert_eq!(search("data:4242"), [""; 0]);
    assert_eq!(search("data:5556"), ["card-1"]);
    server.delete(&keys.private, "/tokens/card-1").expect_status(204);
    assert_eq!(search("data:5556"), [""; 0]);
}

#[test]
fn numbered_search_finds_tokens_by_id_data_and_metadata() {
    let (server, keys) = create_tenant_with_tokens();
    let request = |body: Value| server.post(&keys.private, "/tokens/search", &body);
    let search = |query: &str| ids(&request(json!({"query": query})));
    assert_eq!(search("id:ssn-1"), ["ssn-1"]);
    assert_eq!(search("id:unknown"), [""; 0]);
    assert_eq!(search("data:6789"), ["ssn-2", "ssn-1"]);
    assert_eq!(search(r#"metadata.plan:"GOLD CARD""#), ["ssn-2", "ssn-1"]);
    assert_eq!(search(r#"metadata.plan:"gold card" AND metadata.customer:7"#), ["ssn-1"]);
    let second_page = request(json!({"query": "data:6789", "page": 2, "size": 1}));
    assert_eq!(ids(&second_page), ["ssn-1"]);
    let expected = json!({"total_items": 2, "page_number": 2, "page_size": 1, "total_pages": 2});
    assert_eq!(second_page.json()["pagination"], expected);
}

#[test]
fn cursor_search_pages_continue() {
    let (server, keys) = create_tenant_with_tokens();
    let request = |body: Value| server.post(&keys.private, "/v2/tokens/search", &body);
    let first_page = request(json!({"query": "data:6789", "size": 1, "start": null}));
    assert_eq!(ids(&first_page), ["ssn-1"]);
    let cursor = text_field(&first_page.json()["pagination"], "next");
    let second_page = request(json!({"query": "data:6789", "size": 1, "start": cursor}));
    assert_eq!(ids(&second_page), ["ssn-2"]);
    assert_eq!(second_page.json()["pagination"], json!({"page_size": 1, "next": null}));
    request(json!({"query": "data:4242", "start": cursor})).expect_invalid("start");
    let other_query = json!({"query": "data:6789 AND container:/other/", "start": cursor});
    request(other_query).expect_invalid("start");
    let list_response = server.get_path(&keys.private, &format!("/v2/tokens?start={cursor}"));
    list_response.expect_invalid("start");
}

#[test]
fn rejected_search_queries_name_the_rule() {
    let (server, keys) = create_tenant_with_tokens();
    let search_paths = ["/v2/tokens/search", "/tokens/search"];
    let rows = [
        ("data:a OR data:b", "OR is not supported"),
        ("NOT data:a", "negation"),
        ("-data:a", "negation"),
        ("(data:a)", "parentheses"),
        ("data:4*", "wildcards"),
        ("data:[1 TO 2]", "ranges"),
        ("4242", "must consist of terms"),
        ("", "must have a term"),
    ];
    let expect_rejected = |path: &str, query: &str, rule: &str| {
        let response = server.post(&keys.private, path, &json!({"query": query}));
        response.expect_invalid("query");
        assert!(response.text.contains(rule), "{query}: {}", response.text);
    };
    for path in search_paths {
        for (query, rule) in rows {
            expect_rejected(path, query, rule);
        }
        for (body, attribute) in [
            (json!({}), "query"),
            (json!({"query": 7}), "query"),
            (json!({"query": "data:a", "size": 101}), "size"),
            (json!({"query": "data:a", "size": "5"}), "size"),
        ] {
            server.post(&keys.private, path, &body).expect_invalid(attribute);
        }
        let request = server.request("POST", path).key(&keys.private);
        assert_eq!(request.body("text/plain", "{}").send().status, 415);
    }
    let by_number = [
        ("type:card", "can no longer be searched for"),
        ("created_at:2020", "can no longer be searched for"),
        ("id:abc AND metadata.a:b", "only metadata terms"),
        ("data:a AND data:b", "only metadata terms"),
        ("colour:red", "must be for id, data or metadata"),
    ];
    for (query, rule) in by_number {
        expect_rejected("/tokens/search", query, rule);
    }
    let by_cursor = [
        ("id:abc", "cannot be searched for"),
        ("metadata.a:b AND metadata.c:d", "one term for"),
        ("container:/a/", "one term for"),
        ("data:a AND container:/a/ AND container:/b/", "one term for"),
        ("created_at:2020", "one term for"),
        ("type:robot", "is not a token type"),
        ("data:a AND container:x", "must begin and end with"),
    ];
    for (query, rule) in by_cursor {
        expect_rejected("/v2/tokens/search", query, rule);
    }
    let search = |body: Value| server.post(&keys.private, "/tokens/search", &body);
    search(json!({"query": "data:a", "page": 0})).expect_invalid("page");
    // No error repeats the query.
    let response = search(json!({"query": "data:4242424242424242*"}));
    assert!(!response.text.contains("4242"));
}

#[test]
fn search_requires_the_token_search_permission() {
    let (server, keys) = create_tenant_with_tokens();
    let read_permission = &[Permission::TokenRead];
    let reader =
        server.key_with_permissions(&keys.tenant, ApplicationKind::Private, read_permission);
    let (container, search_permission) = ("/other/", &[Permission::TokenSearch]);
    let key = server.key_with_rule(&keys.tenant, container, Transform::Mask, search_permission);
    for path in ["/v2/tokens/search", "/tokens/search"] {
        let body = json!({"query": "data:6789"});
        server.post(&reader, path, &body).expect_problem(403, "token:search");
        let search_response = server.post(&key, path, &body);
        assert_eq!(ids(&search_response), ["ssn-2"]);
        assert_eq!(search_response.json()["data"][0]["data"], "XXX-XX-6789");
    }
}
