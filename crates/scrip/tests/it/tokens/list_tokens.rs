//! List Tokens, by cursor and by page number.

use std::time::Duration;

use scrip_core::policy::{Permission, TenantSettings, Transform};
use serde_json::{Value, json};

use crate::harness::server::{TenantApiKeys, TestResponse, TestServer, grant, text_field};

/// A tenant of its own with seven tokens, a second apart.
fn tenant_with_tokens() -> (TestServer, TenantApiKeys) {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let places = ["/a/", "/b/", "/a/deep/", "/b/", "/a/", "/b/", "/c/"];
    for (at, place) in places.iter().enumerate() {
        server.clock.advance(Duration::from_secs(1));
        let kind = if at % 2 == 0 { "token" } else { "us_bank_routing_number" };
        let body = json!({
            "id": format!("token-{at}"), "type": kind, "data": "021000021", "containers": [place],
            "metadata": {"Colour": if at < 3 { "Red" } else { "blue" }, "at": at.to_string()},
        });
        server.create_token_ok(&keys.private, &body);
    }
    (server, keys)
}

fn ids(reply: &TestResponse) -> Vec<String> {
    reply.expect_status(200)["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| text_field(it, "id"))
        .collect()
}

#[test]
fn cursor_list_is_ordered_by_container() {
    let (server, keys) = tenant_with_tokens();
    let list = |query: &str| server.get_path(&keys.private, &format!("/v2/tokens{query}"));
    let order = ["token-6", "token-5", "token-3", "token-1", "token-2", "token-4", "token-0"];
    assert_eq!(ids(&list("")), order);
    assert_eq!(list("").json()["pagination"], json!({"page_size": 20, "next": null}));
    assert_eq!(ids(&list("/?container=/a/")), ["token-2", "token-4", "token-0"]);
    assert_eq!(ids(&list("?container=/A/")), ["token-2", "token-4", "token-0"]);
    assert_eq!(ids(&list("?container=/a/deep/")), ["token-2"]);
    assert_eq!(ids(&list("?type=us_bank_routing_number")), ["token-5", "token-3", "token-1"]);
    assert_eq!(ids(&list("?type=token&container=/a/")), ["token-2", "token-4", "token-0"]);
    assert_eq!(ids(&list("?type=card")), [""; 0]);

    let fingerprint = text_field(&list("?type=token").json()["data"][0], "fingerprint");
    let same = ids(&list(&format!("?fingerprint={fingerprint}")));
    assert_eq!(same, ["token-6", "token-2", "token-4", "token-0"]);
    let there = list(&format!("?fingerprint={fingerprint}&container=/c/"));
    assert_eq!(ids(&there), ["token-6"]);
    assert_eq!(ids(&list("?fingerprint=nobodys")), [""; 0]);

    let red = ["token-1", "token-2", "token-0"];
    assert_eq!(ids(&list("?metadata.Colour=Red")), red);
    assert_eq!(ids(&list("?metadata%5BColour%5D=Red")), red);
    assert_eq!(ids(&list("?metadata=%7B%22Colour%22%3A%22Red%22%7D")), red);
    assert_eq!(ids(&list("?metadata.Colour=Red&container=/a/")), ["token-2", "token-0"]);
    assert_eq!(ids(&list("?metadata.colour=Red")), [""; 0]);
    assert_eq!(ids(&list("?metadata.Colour=red")), [""; 0]);
    // What Get Token shows is what a list shows.
    let one = server.get_token(&keys.private, "token-6").json();
    assert_eq!(list("?size=1").json()["data"], json!([one]));
}

#[test]
fn cursor_pages_continue_without_gaps_or_repeats() {
    let (server, keys) = tenant_with_tokens();
    let (mut seen, mut query, mut pages) = (Vec::new(), "?size=3".to_owned(), 0);
    loop {
        let reply = server.get_path(&keys.private, &format!("/v2/tokens{query}"));
        seen.extend(ids(&reply));
        pages += 1;
        let pagination = reply.json()["pagination"].clone();
        assert_eq!(pagination["page_size"], 3);
        let Some(next) = pagination["next"].as_str() else { break };
        assert!(next.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it)));
        query = format!("?size=3&start={next}");
        // Nothing of where it stands can be read off it.
        assert!(!next.contains("token") && next.len() < 300);
    }
    assert_eq!((seen.len(), pages), (7, 3));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 7);
}

#[test]
fn invalid_cursor_list_queries_are_rejected() {
    let (server, keys) = tenant_with_tokens();
    let list = |query: &str| server.get_path(&keys.private, &format!("/v2/tokens{query}"));
    let cursor = text_field(&list("?size=1").json()["pagination"], "next");
    for (query, attribute) in [
        ("?size=0", "size"),
        ("?size=101", "size"),
        ("?size=1&size=2", "size"),
        ("?type=card&type=token", "type"),
        ("?type=robot", "type"),
        ("?type=", "type"),
        ("?container=a", "container"),
        ("?container=", "container"),
        ("?container=/a/&container=/b/", "container"),
        ("?type=card&fingerprint=x", "type"),
        ("?type=card&metadata.a=b", "type"),
        ("?fingerprint=x&metadata.a=b", "type"),
        ("?metadata.a=b&metadata.c=d", "metadata"),
        ("?metadata.a=b&metadata.a=c", "metadata"),
        ("?metadata=nonsense", "metadata"),
        ("?id=token-1", "id"),
        ("?ids=token-1", "ids"),
        ("?start=", "start"),
        ("?start=nonsense", "start"),
        ("?start=AAAA", "start"),
        (&format!("?start={cursor}&container=/a/"), "start"),
        (&format!("?start={cursor}&type=token"), "start"),
        (&format!("?start={cursor}&start={cursor}"), "start"),
        (&format!("?start={cursor}A"), "start"),
    ] {
        list(query).expect_invalid(attribute);
    }
    let neighbour = server.create_test_tenant(TenantSettings::default());
    let foreign = server.get_path(&neighbour.private, &format!("/v2/tokens?start={cursor}"));
    foreign.expect_invalid("start");
}

#[test]
fn numbered_list_is_ordered_newest_first() {
    let (server, keys) = tenant_with_tokens();
    let list = |query: &str| server.get_path(&keys.private, &format!("/tokens{query}"));
    let newest: Vec<_> = (0..7).rev().map(|at| format!("token-{at}")).collect();
    assert_eq!(ids(&list("")), newest);
    assert_eq!(ids(&list("/?size=3&page=2")), newest[3..6]);
    let pagination = |total: usize, number: usize, size: usize, pages: usize| json!({"total_items": total, "page_number": number, "page_size": size, "total_pages": pages});
    assert_eq!(list("?size=3&page=2").json()["pagination"], pagination(7, 2, 3, 3));
    assert_eq!(list("?page=9").json()["pagination"], pagination(7, 9, 20, 1));
    assert_eq!(ids(&list("?page=9")), [""; 0]);
    // One or many, written either way; who is not there is passed over.
    assert_eq!(
        ids(&list("?id=token-2&id=token-5&id=nobody&id=x&id=token-2")),
        ["token-5", "token-2"]
    );
    assert_eq!(ids(&list("?ids=token-2&ids=token-5")), ["token-5", "token-2"]);
    assert_eq!(ids(&list("?id=x")), [""; 0]);
    // Without regard to case, all of them, and of one name the first.
    assert_eq!(ids(&list("?metadata.colour=RED")), ["token-2", "token-1", "token-0"]);
    assert_eq!(ids(&list("?metadata.colour=red&metadata.AT=1")), ["token-1"]);
    assert_eq!(ids(&list("?metadata.colour=red&metadata.at=5")), [""; 0]);
    assert_eq!(ids(&list("?metadata.at=1&metadata.AT=2")), ["token-1"]);
    assert_eq!(ids(&list("?id=token-1&id=token-5&metadata.colour=red")), ["token-1"]);
    for (query, attribute) in [
        ("?page=0", "page"),
        ("?page=101&size=100", "page"),
        ("?page=18446744073709551615", "page"),
        ("?size=101", "size"),
        ("?metadata=x", "metadata"),
    ] {
        list(query).expect_invalid(attribute);
    }
    assert_eq!(list("?page=100&size=100").status, 200);
}

#[test]
fn list_returns_only_readable_tokens() {
    let (server, keys) = tenant_with_tokens();
    let read = &[Permission::TokenRead];
    let rules = vec![grant("/a/", Transform::Redact, read), grant("/c/", Transform::Reveal, read)];
    let key = server.key_with_rules(&keys.tenant, rules);
    let list = |query: &str| server.get_path(&key, &format!("/v2/tokens{query}"));
    assert_eq!(ids(&list("")), ["token-6", "token-2", "token-4", "token-0"]);
    let shown = list("").json();
    assert_eq!(shown["data"][0]["data"], "021000021");
    assert_eq!(shown["data"][1].get("data"), None);
    list("?container=/b/").expect_problem(403, "token:read");
    list("?container=/").expect_problem(403, "token:read");
    assert_eq!(list("?container=/a/deep/").status, 200);
    let counted = server.get_path(&key, "/tokens?size=2").json();
    assert_eq!(counted["pagination"]["total_items"], 4);
    assert_eq!(server.get_path(&key, "/tokens?id=token-1").json()["pagination"]["total_items"], 0);
}

#[test]
fn token_id_search_is_rejected() {
    let (server, keys) = tenant_with_tokens();
    let body = json!({"id": "search", "type": "token", "data": 1});
    server.create_token(&keys.private, &body).expect_invalid("id");
    assert_eq!(server.get_path(&keys.private, "/tokens/search").status, 405);
}

#[test]
fn metadata_is_limited_to_50_entries() {
    let (server, keys) = tenant_with_tokens();
    let metadata = |count: usize| -> Value {
        (0..count).map(|it| (it.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>().into()
    };
    let body =
        |count| json!({"id": "full", "type": "token", "data": 1, "metadata": metadata(count)});
    server.create_token(&keys.private, &body(51)).expect_invalid("metadata");
    server.create_token_ok(&keys.private, &body(50));
    let more = json!({"metadata": {"one": "more"}});
    server.patch_token(&keys.private, "full", &more).expect_invalid("metadata");
    let found = server.get_path(&keys.private, "/v2/tokens?metadata.49=x");
    assert_eq!(ids(&found), ["full"]);
    // What is changed is found by what it is now.
    server
        .patch_token(&keys.private, "full", &json!({"metadata": {"49": "y", "48": null}}))
        .expect_status(200);
    assert_eq!(ids(&server.get_path(&keys.private, "/v2/tokens?metadata.49=x")), [""; 0]);
    assert_eq!(ids(&server.get_path(&keys.private, "/v2/tokens?metadata.48=x")), [""; 0]);
    assert_eq!(ids(&server.get_path(&keys.private, "/v2/tokens?metadata.49=y")), ["full"]);
}
