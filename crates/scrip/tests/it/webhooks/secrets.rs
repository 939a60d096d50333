//! The secret of a webhook: shown once, rotated, and in no table, log or record in clear.

use scrip_core::{audit::LogKind, policy::webhook::WebhookDetails};
use serde_json::{Value, json};

use super::{create_keys, create_webhook, webhook_body, webhook_path};
use crate::harness::{
    engine::expect_none_in_clear,
    server::{SERVER, TenantApiKeys, TestServer, text_field},
};

fn rotate_secret(keys: &TenantApiKeys, webhook: &Value) -> Value {
    let path = format!("{}/secret", webhook_path(webhook));
    SERVER.post_empty(&keys.management, &path).expect_status(200)
}

#[test]
fn rotation_makes_another_secret() {
    let keys = create_keys();
    let webhook = create_webhook(&keys, &json!({}));
    let secret = text_field(&webhook, "secret");
    let rotated = rotate_secret(&keys, &webhook);
    let new_secret = text_field(&rotated, "secret");
    assert_ne!(secret, new_secret);
    for text in [&secret, &new_secret] {
        let key = text.strip_prefix("whsec_").unwrap();
        assert!(key.len() == 44 && key.ends_with('='), "{key}");
    }
    assert_eq!(rotated["id"], webhook["id"]);
    assert_eq!(rotated["modified_by"], webhook["created_by"]);
}

/// A URL can contain a secret of the receiver, and `webhook:update` does not read it.
#[test]
fn response_to_a_secret_rotation_contains_only_what_the_rotation_makes() {
    let keys = create_keys();
    let webhook = create_webhook(&keys, &json!({"notify_email": "receiver@shop.example"}));
    let rotated = rotate_secret(&keys, &webhook);
    let names: Vec<_> = rotated.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "modified_at", "modified_by", "secret"]);
}

#[test]
fn rotated_secret_signs_with_the_previous_one_for_a_day() {
    let keys = create_keys();
    let webhook = create_webhook(&keys, &json!({}));
    let rotated = rotate_secret(&keys, &webhook);
    let directory = SERVER.app.directory.load_full().unwrap();
    let tenant = directory.tenant(keys.tenant.id).unwrap();
    let record = tenant.webhooks.values().next().unwrap();
    let secrets = WebhookDetails::open(&tenant.keys, record.as_ref().clone()).unwrap().secrets;
    let now = SERVER.app.vault.clock.now();
    let valid: Vec<_> = secrets.valid_at(now).map(|it| it.expose().to_owned()).collect();
    assert_eq!(valid, [text_field(&rotated, "secret"), text_field(&webhook, "secret")]);
}

#[test]
fn url_address_and_secret_of_a_webhook_are_sealed_and_not_recorded() {
    let (server, keys) = TestServer::start_with_tenant();
    let hidden = "s3cr3t-58d1c7";
    let body = webhook_body(&json!({
        "url": format!("https://shop.example/{hidden}"), "notify_email": format!("{hidden}@shop.example"),
    }));
    let webhook = server.post(&keys.management, "/webhooks", &body).expect_status(201);
    let path = webhook_path(&webhook);
    let rotation = server.request("POST", &format!("{path}/secret")).key(&keys.management);
    let rotated = rotation.idempotency_key(hidden).send().expect_status(200);
    server.put(&keys.management, &path, &body).expect_status(200);
    server.get_path(&keys.management, &path).expect_status(200);
    server.get_path(&keys.management, "/webhooks").expect_status(200);
    let columns = "SELECT name, status, events, settings, secrets, mac FROM webhooks";
    let rows = server.engine.select(columns);
    assert_eq!(rows.len(), 1);
    let stored_responses = server.engine.select("SELECT digest, head FROM idempotency_records");
    assert_eq!(server.delete(&keys.management, &path).status, 204);
    server.get_path(&keys.management, &path).expect_problem(404, "");

    let columns = "SELECT operation, entity, outcome, detail FROM log_records";
    let records = server.engine.select(columns);
    let reads = server.engine.select_from_log(LogKind::Read, columns);
    let stored = format!("{rows:?}{stored_responses:?}{records:?}{reads:?}");
    let [first, second] = [&webhook, &rotated].map(|it| text_field(it, "secret"));
    expect_none_in_clear(&stored, &[hidden, &first[6..], &second[6..]]);
}
