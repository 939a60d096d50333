//! List Proxies: pages, their order, and filters.

use std::time::Duration;

use scrip_core::policy::TenantSettings;
use serde_json::{Value, json};

use super::proxy_body;
use crate::harness::server::{TestServer, text_field};

#[test]
fn proxies_are_listed_newest_first_and_filtered() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let create = |name: &str| -> Value {
        server.clock.advance(Duration::from_secs(1));
        let body = proxy_body(&json!({"name": name, "configuration": {"name": name}}));
        server.post(&keys.management, "/proxies", &body).expect_status(201)
    };
    let created = ["Charges live", "Charges test", "Refunds", "Payouts"].map(create);
    let list = |query: &str| {
        server.get_path(&keys.management, &format!("/proxies{query}")).expect_status(200)
    };
    let names = |query: &str| -> Vec<String> {
        list(query)["data"].as_array().unwrap().iter().map(|it| text_field(it, "name")).collect()
    };
    assert_eq!(names(""), ["Payouts", "Refunds", "Charges test", "Charges live"]);
    assert_eq!(list("")["data"][3], created[0]);
    assert_eq!(names("?size=3&page=2"), ["Charges live"]);
    let pagination = json!({"total_items": 4, "page_number": 2, "page_size": 3, "total_pages": 2});
    assert_eq!(list("?size=3&page=2")["pagination"], pagination);
    assert_eq!(names("?name=charges*"), ["Charges test", "Charges live"]);
    assert_eq!(names("?name=*s"), ["Payouts", "Refunds"]);
    assert_eq!(names("?name=refunds"), ["Refunds"]);
    assert!(names("?name=refund").is_empty() && names("?name=").is_empty());
    let ids = [0, 2].map(|it: usize| text_field(&created[it], "id"));
    let query = format!("?id={}&id={}", ids[0], ids[1]);
    assert_eq!(names(&query), ["Refunds", "Charges live"]);
    assert_eq!(names(&format!("{query}&name=Ref*")), ["Refunds"]);
    assert!(names("?id=nothing").is_empty());
    let response = server.get_path(&keys.management, "/proxies?name=a&name=b");
    response.expect_invalid("name");
}
