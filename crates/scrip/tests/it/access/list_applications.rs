//! List Applications: pages, their order, and filters.

use std::time::Duration;

use scrip_core::policy::TenantSettings;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::server::{TestResponse, TestServer, text_field};

/// Creates a tenant with its three initial applications and five more, created one second after
/// another.
fn create_tenant_with_applications() -> (TestServer, String, Vec<Value>) {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let create_application = |number: usize| {
        server.clock.advance(Duration::from_secs(1));
        let kind = if number.is_multiple_of(2) { "public" } else { "private" };
        let body =
            json!({"name": number.to_string(), "type": kind, "permissions": ["token:create"]});
        server.post(&keys.management, "/applications", &body).expect_status(201)
    };
    let created = (0..5).map(create_application).collect();
    (server, keys.management, created)
}

#[test]
fn applications_are_listed_newest_first_in_pages() {
    let (server, key, _) = create_tenant_with_applications();
    let page = |query: &str| server.get_path(&key, &format!("/applications{query}"));
    let names = |response: &TestResponse| -> Vec<String> {
        response.expect_status(200)["data"]
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
        let page_body = page(query).expect_status(200);
        let expected = json!({"total_items": 8, "page_number": number, "page_size": size, "total_pages": pages});
        assert_eq!(page_body["pagination"], expected, "{query}");
        assert_eq!(page_body["data"].as_array().unwrap().len(), items, "{query}");
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
    let (server, key, created) = create_tenant_with_applications();
    let id_of = |index: usize| text_field(&created[index], "id");
    let list_ids = |query: &str| -> Vec<String> {
        let page = server.get_path(&key, &format!("/applications?{query}")).expect_status(200);
        let data = page["data"].as_array().unwrap();
        assert_eq!(page["pagination"]["total_items"], data.len(), "{query}");
        data.iter().map(|it| text_field(it, "id")).collect()
    };
    assert_eq!(list_ids(&format!("id={}", id_of(1))), [id_of(1)]);
    assert_eq!(list_ids(&format!("id={}&id={}", id_of(1), id_of(3))), [id_of(3), id_of(1)]);
    assert_eq!(list_ids(&format!("id={}&id=nobodys", id_of(1))), [id_of(1)]);
    assert!(list_ids("id=nobodys").is_empty());
    assert!(list_ids(&format!("id={}", Uuid::new_v4())).is_empty());
    assert!(list_ids("id=").is_empty());
    assert_eq!(list_ids("type=private").len(), 3);
    assert_eq!(list_ids("type=private&type=public").len(), 7);
    assert!(list_ids(&format!("type=management&id={}", id_of(1))).is_empty());
}
