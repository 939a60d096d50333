//! List Applications: pages, their order, and filters.

use std::time::Duration;

use scrip_core::policy::TenantSettings;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::server::{TestResponse, TestServer, text_field};

/// A tenant of its own: three applications that it began with, and five more, a second apart.
fn tenant_with_applications() -> (TestServer, String, Vec<Value>) {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let create = |number: usize| {
        server.clock.advance(Duration::from_secs(1));
        let kind = if number.is_multiple_of(2) { "public" } else { "private" };
        let body =
            json!({"name": number.to_string(), "type": kind, "permissions": ["token:create"]});
        server.post(&keys.management, "/applications", &body).expect_status(201)
    };
    let created = (0..5).map(create).collect();
    (server, keys.management, created)
}

#[test]
fn applications_are_listed_newest_first_in_pages() {
    let (server, key, _) = tenant_with_applications();
    let page = |query: &str| server.get_path(&key, &format!("/applications{query}"));
    let names = |reply: &TestResponse| -> Vec<String> {
        reply.expect_status(200)["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| text_field(it, "name"))
            .collect()
    };
    assert_eq!(names(&page(""))[..5], ["4", "3", "2", "1", "0"]);
    assert_eq!(names(&page("?size=2")), ["4", "3"]);
    assert_eq!(names(&page("/?size=2&page=2")), ["2", "1"]);
    assert_eq!(names(&page("?page=3&size=3")).len(), 2);
    for (query, number, size, pages, items) in [
        ("", 1, 20, 1, 8),
        ("?size=3&page=2", 2, 3, 3, 3),
        ("?size=3&page=99", 99, 3, 3, 0),
        ("?size=100", 1, 100, 1, 8),
    ] {
        let found = page(query).expect_status(200);
        let expected = json!({"total_items": 8, "page_number": number, "page_size": size, "total_pages": pages});
        assert_eq!(found["pagination"], expected, "{query}");
        assert_eq!(found["data"].as_array().unwrap().len(), items, "{query}");
    }
    for (query, attribute) in [
        ("?page=0", "page"),
        ("?page=-1", "page"),
        ("?page=x", "page"),
        ("?page=1&page=2", "page"),
        ("?size=0", "size"),
        ("?size=101", "size"),
        ("?size=", "size"),
        ("?type=robot", "type"),
        ("?type=private&type=", "type"),
    ] {
        page(query).expect_invalid(attribute);
    }
}

#[test]
fn applications_are_filtered_by_id_and_type() {
    let (server, key, created) = tenant_with_applications();
    let id = |at: usize| text_field(&created[at], "id");
    let found = |query: &str| -> Vec<String> {
        let found = server.get_path(&key, &format!("/applications?{query}")).expect_status(200);
        let data = found["data"].as_array().unwrap();
        assert_eq!(found["pagination"]["total_items"], data.len(), "{query}");
        data.iter().map(|it| text_field(it, "id")).collect()
    };
    assert_eq!(found(&format!("id={}", id(1))), [id(1)]);
    assert_eq!(found(&format!("id={}&id={}", id(1), id(3))), [id(3), id(1)]);
    assert_eq!(found(&format!("id={}&id=nobodys", id(1))), [id(1)]);
    assert!(found("id=nobodys").is_empty());
    assert!(found(&format!("id={}", Uuid::new_v4())).is_empty());
    assert!(found("id=").is_empty());
    assert_eq!(found("type=private").len(), 3);
    assert_eq!(found("type=private&type=public").len(), 7);
    assert!(found(&format!("type=management&id={}", id(1))).is_empty());
}
