//! List Tokens, by cursor and by page number.

use std::time::Duration;

use scrip_api::routes::ROUTES;
use scrip_core::types::{Permission, Transform};
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, TenantApiKeys, TestServer, grant, text_field},
    tokens::ids,
};

/// Creates a tenant with seven tokens, created one second after another.
fn create_tenant_with_tokens() -> (TestServer, TenantApiKeys) {
    let (server, keys) = TestServer::start_with_tenant();
    let containers = ["/a/", "/b/", "/a/deep/", "/b/", "/a/", "/b/", "/c/"];
    for (index, container) in containers.iter().enumerate() {
        server.clock.advance(Duration::from_secs(1));
        let kind = if index % 2 == 0 { "token" } else { "us_bank_routing_number" };
        let body = json!({
            "id": format!("token-{index}"), "type": kind, "data": "021000021",
            "containers": [container],
            "metadata": {"Colour": if index < 3 { "Red" } else { "blue" }, "at": index.to_string()},
        });
        server.create_token_ok(&keys.private, &body);
    }
    (server, keys)
}

#[test]
fn cursor_list_is_ordered_by_container() {
    let (server, keys) = create_tenant_with_tokens();
    let list_tokens = |query: &str| server.get_path(&keys.private, &format!("/v2/tokens{query}"));
    let order = ["token-6", "token-5", "token-3", "token-1", "token-2", "token-4", "token-0"];
    assert_eq!(ids(&list_tokens("")), order);
    assert_eq!(list_tokens("").json()["pagination"], json!({"page_size": 20, "next": null}));
    assert_eq!(ids(&list_tokens("/?container=/a/")), ["token-2", "token-4", "token-0"]);
    assert_eq!(ids(&list_tokens("?container=/A/")), ["token-2", "token-4", "token-0"]);
    assert_eq!(ids(&list_tokens("?container=/a/deep/")), ["token-2"]);
    let bank_ids = ["token-5", "token-3", "token-1"];
    assert_eq!(ids(&list_tokens("?type=us_bank_routing_number")), bank_ids);
    assert_eq!(ids(&list_tokens("?type=token&container=/a/")), ["token-2", "token-4", "token-0"]);
    assert_eq!(ids(&list_tokens("?type=card")), [""; 0]);

    let fingerprint = text_field(&list_tokens("?type=token").json()["data"][0], "fingerprint");
    let ids_with_fingerprint = ids(&list_tokens(&format!("?fingerprint={fingerprint}")));
    assert_eq!(ids_with_fingerprint, ["token-6", "token-2", "token-4", "token-0"]);
    let filtered_list = list_tokens(&format!("?fingerprint={fingerprint}&container=/c/"));
    assert_eq!(ids(&filtered_list), ["token-6"]);
    assert_eq!(ids(&list_tokens("?fingerprint=nobodys")), [""; 0]);

    let expected_red_ids = ["token-1", "token-2", "token-0"];
    assert_eq!(ids(&list_tokens("?metadata.Colour=Red")), expected_red_ids);
    assert_eq!(ids(&list_tokens("?metadata%5BColour%5D=Red")), expected_red_ids);
    assert_eq!(ids(&list_tokens("?metadata=%7B%22Colour%22%3A%22Red%22%7D")), expected_red_ids);
    assert_eq!(ids(&list_tokens("?metadata.Colour=Red&container=/a/")), ["token-2", "token-0"]);
    assert_eq!(ids(&list_tokens("?metadata.colour=Red")), [""; 0]);
    assert_eq!(ids(&list_tokens("?metadata.Colour=red")), [""; 0]);
    // A list returns tokens in the same format as Get Token.
    let single_token = server.get_token(&keys.private, "token-6").json();
    assert_eq!(list_tokens("?size=1").json()["data"], json!([single_token]));
}

#[test]
fn cursor_pages_continue_without_gaps_or_repeats() {
    let (server, keys) = create_tenant_with_tokens();
    let (mut listed_ids, mut query, mut pages) = (Vec::new(), "?size=3".to_owned(), 0);
    loop {
        let response = server.get_path(&keys.private, &format!("/v2/tokens{query}"));
        listed_ids.extend(ids(&response));
        pages += 1;
        let pagination = response.json()["pagination"].clone();
        assert_eq!(pagination["page_size"], 3);
        let Some(next) = pagination["next"].as_str() else { break };
        assert!(next.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it)));
        query = format!("?size=3&start={next}");
        // The cursor does not disclose its position.
        assert!(!next.contains("token") && next.len() < 300);
    }
    assert_eq!((listed_ids.len(), pages), (7, 3));
    listed_ids.sort();
    listed_ids.dedup();
    assert_eq!(listed_ids.len(), 7);
}

#[test]
fn invalid_cursor_list_queries_are_rejected() {
    let (server, keys) = create_tenant_with_tokens();
    let list_tokens = |query: &str| server.get_path(&keys.private, &format!("/v2/tokens{query}"));
    let cursor = text_field(&list_tokens("?size=1").json()["pagination"], "next");
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
        list_tokens(query).expect_invalid(attribute);
    }
    let other_tenant_keys = server.create_default_tenant();
    let foreign_response =
        server.get_path(&other_tenant_keys.private, &format!("/v2/tokens?start={cursor}"));
    foreign_response.expect_invalid("start");
}

#[test]
fn numbered_list_is_ordered_newest_first() {
    let (server, keys) = create_tenant_with_tokens();
    let list_tokens = |query: &str| server.get_path(&keys.private, &format!("/tokens{query}"));
    let newest_first: Vec<_> = (0..7).rev().map(|index| format!("token-{index}")).collect();
    assert_eq!(ids(&list_tokens("")), newest_first);
    assert_eq!(ids(&list_tokens("/?size=3&page=2")), newest_first[3..6]);
    let pagination = |total: usize, number: usize, size: usize, pages: usize| json!({"total_items": total, "page_number": number, "page_size": size, "total_pages": pages});
    assert_eq!(list_tokens("?size=3&page=2").json()["pagination"], pagination(7, 2, 3, 3));
    assert_eq!(list_tokens("?page=9").json()["pagination"], pagination(7, 9, 20, 1));
    assert_eq!(ids(&list_tokens("?page=9")), [""; 0]);
    // A query can contain one or several ids, in either notation. Unknown ids are ignored.
    let repeated_and_unknown = "?id=token-2&id=token-5&id=unknown&id=x&id=token-2";
    assert_eq!(ids(&list_tokens(repeated_and_unknown)), ["token-5", "token-2"]);
    assert_eq!(ids(&list_tokens("?ids=token-2&ids=token-5")), ["token-5", "token-2"]);
    assert_eq!(ids(&list_tokens("?id=x")), [""; 0]);
    // Metadata is compared case-insensitively. All terms must match. Of a repeated name only the
    // first counts.
    assert_eq!(ids(&list_tokens("?metadata.colour=RED")), ["token-2", "token-1", "token-0"]);
    assert_eq!(ids(&list_tokens("?metadata.colour=red&metadata.AT=1")), ["token-1"]);
    assert_eq!(ids(&list_tokens("?metadata.colour=red&metadata.at=5")), [""; 0]);
    assert_eq!(ids(&list_tokens("?metadata.at=1&metadata.AT=2")), ["token-1"]);
    assert_eq!(ids(&list_tokens("?id=token-1&id=token-5&metadata.colour=red")), ["token-1"]);
    let bank_ids = ["token-5", "token-3", "token-1"];
    assert_eq!(ids(&list_tokens("?type=us_bank_routing_number")), bank_ids);
    assert_eq!(ids(&list_tokens("?type=us_bank_routing_number&metadata.colour=red")), ["token-1"]);
    assert_eq!(ids(&list_tokens("?container=/a/")), ["token-4", "token-2", "token-0"]);
    let combined = "?container=/a/&metadata.colour=red&type=token&size=1";
    assert_eq!(ids(&list_tokens(combined)), ["token-2"]);
    assert_eq!(ids(&list_tokens("?container=/a/&id=token-1&id=token-2")), ["token-2"]);
    assert_eq!(ids(&list_tokens("?type=card")), [""; 0]);
    assert_eq!(ids(&list_tokens("?type=card&id=token-1")), [""; 0]);
    let fingerprint = text_field(&list_tokens("?type=token").json()["data"][0], "fingerprint");
    let with_fingerprint =
        |query: &str| ids(&list_tokens(&format!("?fingerprint={fingerprint}{query}")));
    assert_eq!(with_fingerprint(""), ["token-6", "token-4", "token-2", "token-0"]);
    assert_eq!(with_fingerprint("&container=/a/deep/"), ["token-2"]);
    assert_eq!(with_fingerprint("&type=us_bank_routing_number"), [""; 0]);
    assert_eq!(with_fingerprint("&id=token-0&id=token-1"), ["token-0"]);
    assert_eq!(ids(&list_tokens("?fingerprint=nobodys")), [""; 0]);
    // Old clients send these.
    assert_eq!(ids(&list_tokens("?children=true&children_type=x&start=x&type=card")), [""; 0]);
    for (query, attribute) in [
        ("?type=robot", "type"),
        ("?type=token&type=token", "type"),
        ("?container=a", "container"),
        ("?fingerprint=x&fingerprint=y", "fingerprint"),
        ("?typ=token", "typ"),
        ("?page=0", "page"),
        ("?page=101&size=100", "page"),
        ("?page=18446744073709551615", "page"),
        ("?size=101", "size"),
        ("?metadata=x", "metadata"),
    ] {
        list_tokens(query).expect_invalid(attribute);
    }
    assert_eq!(list_tokens("?page=100&size=100").status, 200);
}

#[test]
fn list_returns_only_readable_tokens() {
    let (server, keys) = create_tenant_with_tokens();
    let read_permission = &[Permission::TokenRead];
    let rules = vec![
        grant("/a/", Transform::Redact, read_permission),
        grant("/c/", Transform::Reveal, read_permission),
    ];
    let key = server.key_with_rules(&keys.tenant, rules);
    let list_tokens = |query: &str| server.get_path(&key, &format!("/v2/tokens{query}"));
    assert_eq!(ids(&list_tokens("")), ["token-6", "token-2", "token-4", "token-0"]);
    let page = list_tokens("").json();
    assert_eq!(page["data"][0]["data"], "021000021");
    assert_eq!(page["data"][1].get("data"), None);
    list_tokens("?container=/b/").expect_problem(403, "token:read");
    list_tokens("?container=/").expect_problem(403, "token:read");
    assert_eq!(list_tokens("?container=/a/deep/").status, 200);
    let first_page = server.get_path(&key, "/tokens?size=2").json();
    assert_eq!(first_page["pagination"]["total_items"], 4);
    assert_eq!(server.get_path(&key, "/tokens?id=token-1").json()["pagination"]["total_items"], 0);
    assert_eq!(ids(&server.get_path(&key, "/tokens?container=/a/deep/")), ["token-2"]);
    for query in ["container=/b/", "container=/", "container=/b/&id=token-1"] {
        server.get_path(&key, &format!("/tokens?{query}")).expect_problem(403, "token:read");
    }
}

#[test]
fn unknown_parameter_of_every_list_is_named() {
    let keys = [&ACME.private, &ACME.management];
    let routes = ROUTES.iter().filter(|it| it.operation.as_str().starts_with("list_"));
    let mut count = 0;
    for route in routes {
        let path = route.path.replace("{id}", "00000000-0000-0000-0000-000000000000");
        for key in keys {
            let request = SERVER.request(route.method_name(), &format!("{path}?typ=card"));
            let response = request.key(key).send();
            if response.status != 403 {
                response.expect_invalid("typ");
                count += 1;
            }
        }
    }
    assert!(count >= 15, "{count} lists");
}

#[test]
fn token_id_search_is_rejected() {
    let (server, keys) = create_tenant_with_tokens();
    let body = json!({"id": "search", "type": "token", "data": 1});
    server.create_token(&keys.private, &body).expect_invalid("id");
    assert_eq!(server.get_path(&keys.private, "/tokens/search").status, 405);
}

#[test]
fn metadata_is_limited_to_50_entries() {
    let (server, keys) = create_tenant_with_tokens();
    let metadata = |count: usize| -> Value {
        (0..count).map(|it| (it.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>().into()
    };
    let body =
        |count| json!({"id": "full", "type": "token", "data": 1, "metadata": metadata(count)});
    server.create_token(&keys.private, &body(51)).expect_invalid("metadata");
    server.create_token_ok(&keys.private, &body(50));
    let additional_entry = json!({"metadata": {"one": "more"}});
    server.patch_token(&keys.private, "full", &additional_entry).expect_invalid("metadata");
    let find =
        |term: &str| ids(&server.get_path(&keys.private, &format!("/v2/tokens?metadata.{term}")));
    assert_eq!(find("49=x"), ["full"]);
    // A changed token is found by its new metadata.
    let patch = json!({"metadata": {"49": "y", "48": null}});
    server.patch_token(&keys.private, "full", &patch).expect_status(200);
    assert_eq!((find("49=x"), find("48=x")), (vec![], vec![]));
    assert_eq!(find("49=y"), ["full"]);
}
