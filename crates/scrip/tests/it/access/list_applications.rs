//! List Applications: pages, their order, and filters.

use std::time::Duration;

use scrip_core::policy::Settings;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::server::{Reply, Server, text};

/// A tenant of its own: three applications that it began with, and five more, a second apart.
fn listed_tenant() -> (Server, String, Vec<Value>) {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let create = |number: usize| {
        server.clock.advance(Duration::from_secs(1));
        let kind = if number.is_multiple_of(2) { "public" } else { "private" };
        let body =
            json!({"name": number.to_string(), "type": kind, "permissions": ["token:create"]});
        server.post(&keys.management, "/applications", &body).is(201)
    };
    let made = (0..5).map(create).collect();
    (server, keys.management, made)
}

#[test]
fn the_newest_first_page_by_page() {
    let (server, key, _) = listed_tenant();
    let page = |query: &str| server.fetch(&key, &format!("/applications{query}"));
    let names = |reply: &Reply| -> Vec<String> {
        reply.is(200)["data"].as_array().unwrap().iter().map(|it| text(it, "name")).collect()
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
        let found = page(query).is(200);
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
        page(query).invalid(attribute);
    }
}

#[test]
fn filters_of_a_list() {
    let (server, key, made) = listed_tenant();
    let id = |at: usize| text(&made[at], "id");
    let found = |query: &str| -> Vec<String> {
        let found = server.fetch(&key, &format!("/applications?{query}")).is(200);
        let data = found["data"].as_array().unwrap();
        assert_eq!(found["pagination"]["total_items"], data.len(), "{query}");
        data.iter().map(|it| text(it, "id")).collect()
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
