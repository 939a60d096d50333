//! Webhooks: their attributes, lists, secrets, limits, events and deliveries. Each test has its own tenant,
//! because a tenant has few webhooks.

mod attributes;
mod deliverer;
mod deliveries;
mod events;
mod lists;
mod public_key;
mod replays;
mod secrets;
mod test_events;
mod validation;

use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::harness::server::{SERVER, TenantApiKeys, TestResponse, TestServer, text_field};

fn create_keys() -> TenantApiKeys {
    SERVER.create_default_tenant()
}

/// A minimal webhook with some attributes changed.
fn webhook_body(changes: &Value) -> Value {
    let body = json!({
        "name": "Orders", "url": "https://shop.example/webhooks", "events": ["token.created"],
    });
    with_members(body, changes)
}

fn try_create(keys: &TenantApiKeys, changes: &Value) -> TestResponse {
    SERVER.post(&keys.management, "/webhooks", &webhook_body(changes))
}

fn create_webhook(keys: &TenantApiKeys, changes: &Value) -> Value {
    try_create(keys, changes).expect_status(201)
}

fn create_webhook_on(server: &TestServer, keys: &TenantApiKeys, changes: &Value) -> Value {
    server.create_entity(&keys.management, "/webhooks", &webhook_body(changes))
}

/// Expects that pages of each size together are the whole list.
#[track_caller]
fn expect_pages(list: impl Fn(&str) -> Value, expected: &[Value]) {
    for size in 1..=expected.len() {
        let (mut paged, mut query) = (Vec::new(), format!("?size={size}"));
        loop {
            let page = list(&query);
            assert_eq!(page["pagination"]["page_size"], size);
            paged.extend(page["data"].as_array().unwrap().clone());
            let Some(next) = page["pagination"]["next"].as_str() else { break };
            query = format!("?size={size}&start={next}");
        }
        assert_eq!(paged, expected, "pages of {size}");
    }
}

fn webhook_path(webhook: &Value) -> String {
    format!("/webhooks/{}", text_field(webhook, "id"))
}

fn get_webhook(keys: &TenantApiKeys, webhook: &Value) -> Value {
    SERVER.get_path(&keys.management, &webhook_path(webhook)).expect_status(200)
}

fn update_webhook(keys: &TenantApiKeys, webhook: &Value, changes: &Value) -> TestResponse {
    SERVER.put(&keys.management, &webhook_path(webhook), &webhook_body(changes))
}

/// The webhook as later responses show it.
fn without_secret(webhook: &Value) -> Value {
    let mut webhook = webhook.clone();
    webhook.as_object_mut().unwrap().remove("secret").expect("the response has a secret");
    webhook
}
