//! The attributes of a webhook: created, read, replaced and deleted.

use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use super::{create_keys, create_webhook, update_webhook};
use crate::harness::server::SERVER;

#[test]
fn created_webhook_has_its_optional_attributes() {
    let keys = create_keys();
    let events = json!(["token.read", "token.created", "reactor.failed"]);
    let attributes =
        json!({"events": events, "notify_email": "ops@shop.example", "status": "disabled"});
    let webhook = create_webhook(&keys, &attributes);
    assert_members(&webhook, &attributes);
    assert_eq!(webhook["url"], "https://shop.example/webhooks");
}

#[test]
fn put_replaces_all_attributes_and_keeps_an_absent_status() {
    let keys = create_keys();
    let webhook = create_webhook(&keys, &json!({"notify_email": "ops@shop.example"}));
    let changes = json!({"name": "Refunds", "events": ["token.deleted"], "status": "disabled"});
    let updated = update_webhook(&keys, &webhook, &changes).expect_status(200);
    for name in ["events", "status"] {
        assert_eq!(updated[name], changes[name], "{name}");
    }
    assert_eq!(updated.get("notify_email"), None);
    for (status, expected) in
        [(Value::Null, "disabled"), (json!("enabled"), "enabled"), (Value::Null, "enabled")]
    {
        let updated = update_webhook(&keys, &webhook, &json!({"status": status}));
        assert_eq!(updated.expect_status(200)["status"], expected);
    }
}

#[test]
fn event_types_are_listed_as_texts() {
    let keys = create_keys();
    let listed = SERVER.get_path(&keys.management, "/webhooks/event-types");
    let listed = listed.expect_status(200);
    let listed: Vec<&str> = listed.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for event in ["token.created", "token.property.expired", "3ds.session.authenticated"] {
        assert!(listed.contains(&event), "{listed:?}");
    }
    for event in ["http.request", "tenant.created", "reactor.created", "google-pay.created"] {
        assert!(!listed.contains(&event), "{listed:?}");
    }
}

#[test]
fn ping_needs_no_key() {
    for request in [
        SERVER.request("GET", "/ping"),
        SERVER.request("GET", "/ping").key("key_test_us_pvt_unknown"),
    ] {
        let response = request.send();
        assert_eq!((response.status, response.text.as_str()), (204, ""));
    }
}
