//! List Webhooks: pages with a cursor.

use std::time::Duration;

use serde_json::json;

use super::without_secret;
use crate::{
    harness::server::{TestServer, text_field, text_fields},
    webhooks::{create_webhook_on, expect_pages},
};

#[test]
fn webhooks_are_listed_newest_first_in_pages_with_a_cursor() {
    let (server, keys) = TestServer::start_with_tenant();
    let other = server.create_default_tenant();
    let create = |name: &str| create_webhook_on(&server, &keys, &json!({"name": name}));
    // The first two are created at the same time.
    let mut created = vec![create("a"), create("b")];
    for name in ["c", "d", "e"] {
        server.clock.advance(Duration::from_secs(1));
        created.push(create(name));
    }
    create_webhook_on(&server, &other, &json!({"name": "foreign"}));
    let list = |query: &str| {
        server.get_path(&keys.management, &format!("/webhooks{query}")).expect_status(200)
    };
    let all = list("");
    assert_eq!(all["pagination"], json!({"page_size": 20, "next": null}));
    let listed = all["data"].as_array().unwrap();
    assert_eq!(text_fields(&all["data"], "name")[..3], ["e", "d", "c"]);
    for webhook in &created {
        assert!(listed.contains(&without_secret(webhook)), "{webhook}");
    }
    assert_eq!(listed.len(), 5);

    expect_pages(list, listed);

    let next = text_field(&list("?size=2")["pagination"], "next");
    // A deleted webhook does not move the page after it.
    let path = format!("/webhooks/{}", text_field(&listed[1], "id"));
    assert_eq!(server.delete(&keys.management, &path).status, 204);
    assert_eq!(list(&format!("?start={next}"))["data"][0], listed[2]);
    let foreign = server.get_path(&other.management, &format!("/webhooks?start={next}"));
    foreign.expect_invalid("start");
    let logs = server.get_path(&keys.management, &format!("/logs?start={next}"));
    logs.expect_invalid("start");
    for (query, parameter) in
        [("start=x", "start"), ("size=0", "size"), ("size=101", "size"), ("page=1", "page")]
    {
        let response = server.get_path(&keys.management, &format!("/webhooks?{query}"));
        response.expect_invalid(parameter);
    }
}
