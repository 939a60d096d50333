//! Invalid webhooks, and the limit of webhooks.

use scrip_core::policy::destination::LoopbackDestinations;
use scrip_core::types::EventType;
use serde_json::{Value, json};

use super::{create_keys, create_webhook, get_webhook, try_create, update_webhook, webhook_body};
use crate::{
    harness::server::{SERVER, TestServer},
    webhooks::create_webhook_on,
};

#[test]
fn invalid_webhook_is_rejected_and_its_values_are_not_repeated() {
    let keys = create_keys();
    let secret = "s3cr3t-7d1f";
    let webhook = create_webhook(&keys, &json!({}));
    let current = get_webhook(&keys, &webhook);
    for (changes, field) in [
        (json!({"name": "x".repeat(201)}), "name"),
        (json!({"url": secret}), "url"),
        (json!({"url": format!("http://{secret}.example")}), "url"),
        (json!({"url": format!("https://user:{secret}@shop.example/")}), "url"),
        (json!({"url": format!("https://shop.example/#{secret}")}), "url"),
        (json!({"url": "https://127.0.0.1/"}), "url"),
        (json!({"url": "http://127.0.0.1:8080/"}), "url"),
        (json!({"url": "https://localhost/"}), "url"),
        (json!({"url": format!("https://shop.example/{}", "x".repeat(2048))}), "url"),
        (json!({"events": []}), "events"),
        (json!({"events": ["token.created", secret]}), "events[1]"),
        (json!({"notify_email": secret}), "notify_email"),
        (json!({"notify_email": 7}), "notify_email"),
        (json!({"notify_email": format!("{}@shop.example", "x".repeat(320))}), "notify_email"),
        (json!({"status": secret}), "status"),
    ] {
        for response in [try_create(&keys, &changes), update_webhook(&keys, &webhook, &changes)] {
            response.expect_invalid(field);
            assert!(!response.text.contains(secret), "{}", response.text);
        }
    }
    assert_eq!(get_webhook(&keys, &webhook), current);
    let list = SERVER.get_path(&keys.management, "/webhooks").expect_status(200);
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
}

#[test]
fn unknown_event_type_is_named() {
    let keys = create_keys();
    let response = try_create(&keys, &json!({"events": ["token.created", "token.fly"]}));
    response.expect_invalid("events[1]");
    let rule = "token.fly is not an event type; GET /webhooks/event-types lists them";
    assert_eq!(response.json()["errors"], json!({"events[1]": [rule]}));
}

#[test]
fn webhook_can_name_every_event_type_of_the_interface() {
    let keys = create_keys();
    let events = Value::from(EventType::ALL.map(|it| it.as_str()).to_vec());
    let webhook = create_webhook(&keys, &json!({"events": events}));
    assert_eq!(get_webhook(&keys, &webhook)["events"], events);
}

#[test]
fn loopback_url_is_accepted_where_proxies_accept_it() {
    let server = TestServer::start_with(|setup| {
        setup.settings.loopback_destinations = LoopbackDestinations::Allowed;
    });
    let keys = server.create_default_tenant();
    let url = "http://127.0.0.1:9999/webhooks";
    assert_eq!(create_webhook_on(&server, &keys, &json!({"url": url}))["url"], url);
    let body = webhook_body(&json!({"url": "http://shop.example/"}));
    server.post(&keys.management, "/webhooks", &body).expect_invalid("url");
}

#[test]
fn sixth_webhook_is_rejected_until_one_is_deleted() {
    let (keys, other) = (create_keys(), create_keys());
    let created: Vec<_> = (0..5).map(|_| create_webhook(&keys, &json!({}))).collect();
    let response = try_create(&keys, &json!({}));
    response.expect_invalid("webhook_limit");
    let rule = "allows at most 5 webhooks per tenant; delete one";
    assert_eq!(response.json()["errors"], json!({"webhook_limit": [rule]}));
    update_webhook(&keys, &created[0], &json!({"name": "x"})).expect_status(200);
    create_webhook(&other, &json!({}));
    let path = super::webhook_path(&created[0]);
    assert_eq!(SERVER.delete(&keys.management, &path).status, 204);
    create_webhook(&keys, &json!({}));
    try_create(&keys, &json!({})).expect_invalid("webhook_limit");
}
