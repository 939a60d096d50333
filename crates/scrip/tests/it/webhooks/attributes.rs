//! The attributes of a webhook: created, read, replaced and deleted.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    create_keys, create_webhook, get_webhook, update_webhook, webhook_body, webhook_path,
    without_secret,
};
use crate::harness::server::{SHARED_SERVER, text_field};

#[test]
fn created_webhook_has_all_attributes_and_is_read_without_a_secret() {
    let keys = create_keys();
    let events = json!(["token.read", "token.created", "reactor.failed"]);
    let webhook =
        create_webhook(&keys, &json!({"events": events, "notify_email": "ops@shop.example"}));
    let manager = SHARED_SERVER.get_path(&keys.management, "/applications/key").expect_status(200);
    for (name, expected) in [
        ("name", json!("Orders")),
        ("url", json!("https://shop.example/webhooks")),
        ("events", events),
        ("status", json!("enabled")),
        ("notify_email", json!("ops@shop.example")),
        ("tenant_id", json!(keys.tenant.id.to_string())),
        ("created_by", manager["id"].clone()),
        ("modified_at", Value::Null),
        ("modified_by", Value::Null),
    ] {
        assert_eq!(webhook[name], expected, "{name}");
    }
    assert!(Uuid::try_parse(&text_field(&webhook, "id")).is_ok());
    assert_eq!(get_webhook(&keys, &webhook), without_secret(&webhook));
}

#[test]
fn put_replaces_all_attributes_and_keeps_an_absent_status() {
    let keys = create_keys();
    let webhook = create_webhook(&keys, &json!({"notify_email": "ops@shop.example"}));
    let changes = json!({"name": "Refunds", "events": ["token.deleted"], "status": "disabled"});
    let updated = update_webhook(&keys, &webhook, &changes).expect_status(200);
    assert_eq!(updated["id"], webhook["id"]);
    for name in ["name", "events", "status"] {
        assert_eq!(updated[name], changes[name], "{name}");
    }
    assert_eq!((updated.get("notify_email"), updated.get("secret")), (None, None));
    assert_eq!(updated["modified_by"], webhook["created_by"]);
    assert_eq!(get_webhook(&keys, &webhook), updated);
    for (status, expected) in
        [(Value::Null, "disabled"), (json!("enabled"), "enabled"), (Value::Null, "enabled")]
    {
        let updated = update_webhook(&keys, &webhook, &json!({"status": status}));
        assert_eq!(updated.expect_status(200)["status"], expected);
    }
    let current = get_webhook(&keys, &webhook);
    for missing in ["name", "url", "events"] {
        update_webhook(&keys, &webhook, &json!({missing: null})).expect_invalid(missing);
    }
    assert_eq!(get_webhook(&keys, &webhook), current);
}

#[test]
fn disabled_webhook_can_be_created() {
    let keys = create_keys();
    let webhook = create_webhook(&keys, &json!({"status": "disabled"}));
    assert_eq!(get_webhook(&keys, &webhook)["status"], "disabled");
}

#[test]
fn unknown_webhook_is_not_found_with_a_json_body() {
    let (keys, other) = (create_keys(), create_keys());
    let foreign = create_webhook(&other, &json!({}));
    let deleted = create_webhook(&keys, &json!({}));
    let response = SHARED_SERVER.delete(&keys.management, &webhook_path(&deleted));
    assert_eq!((response.status, response.text.as_str()), (204, ""));
    let paths = [
        webhook_path(&deleted),
        webhook_path(&foreign),
        format!("/webhooks/{}", Uuid::new_v4()),
        "/webhooks/none".to_owned(),
    ];
    let replay = json!({"from": "2026-11-01T00:00:00+00:00"});
    for path in paths {
        for response in [
            SHARED_SERVER.get_path(&keys.management, &path),
            SHARED_SERVER.delete(&keys.management, &path),
            SHARED_SERVER.put(&keys.management, &path, &webhook_body(&json!({}))),
            SHARED_SERVER.request("POST", &format!("{path}/secret")).key(&keys.management).send(),
            SHARED_SERVER.get_path(&keys.management, &format!("{path}/deliveries")),
            SHARED_SERVER.request("POST", &format!("{path}/test")).key(&keys.management).send(),
            SHARED_SERVER.post(&keys.management, &format!("{path}/replay"), &replay),
        ] {
            response.expect_problem(404, "Not found.");
            assert_eq!(response.json()["status"], 404);
        }
    }
    for path in ["/webhooks/a/b", "/webhooks/a/secret/b", "/events"] {
        SHARED_SERVER.get_path(&keys.management, path).expect_problem(404, "Not found.");
    }
    assert_eq!(get_webhook(&other, &foreign), without_secret(&foreign));
}

#[test]
fn event_types_are_listed_as_texts() {
    let keys = create_keys();
    let listed = SHARED_SERVER.get_path(&keys.management, "/webhooks/event-types");
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
        SHARED_SERVER.request("GET", "/ping"),
        SHARED_SERVER.request("GET", "/ping").key("key_test_us_pvt_unknown"),
    ] {
        let response = request.send();
        assert_eq!((response.status, response.text.as_str()), (204, ""));
    }
}
