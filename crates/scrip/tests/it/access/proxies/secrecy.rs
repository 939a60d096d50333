//! Secrets of a proxy are in no table in clear, and in no audit record.

use scrip_core::audit::LogKind;
use serde_json::json;

use super::{CERTIFICATE, proxy_body};
use crate::harness::{
    engine::expect_none_in_clear,
    server::{TestServer, text_field},
};

#[test]
fn secrets_of_a_proxy_are_sealed_and_not_recorded() {
    let (server, keys) = TestServer::start_with_tenant();
    let secret = "s3cr3t-58d1c7";
    let changes = json!({
        "configuration": {"login": secret}, "destination_url": format!("https://{secret}.example/v1"),
        "request_transforms": [{"type": "append_text", "options": {"value": secret}}],
    });
    let proxy = server.post(&keys.management, "/proxies", &proxy_body(&changes)).expect_status(201);
    let path = format!("/proxies/{}", text_field(&proxy, "id"));
    let certificate_path = format!("{path}/client-certificate");
    server.put(&keys.management, &certificate_path, &CERTIFICATE).expect_status(200);
    server.put(&keys.management, &path, &proxy_body(&changes)).expect_status(200);
    let patch = json!({"configuration": {"password": secret}});
    let request = server.request("PATCH", &path).key(&keys.management).idempotency_key(secret);
    assert_eq!(request.merge_patch(&patch).send().status, 204);
    server.get_path(&keys.management, "/proxies").expect_status(200);
    server.delete(&keys.management, &path);
    server.get_path(&keys.management, &path).expect_problem(404, "");
    let created = server.create_entity(&keys.management, "/proxies", &proxy_body(&changes));

    let rows = server.engine.select("SELECT name, digest, settings, secrets, mac FROM proxies");
    assert_eq!(rows.len(), 1);
    let sql = "SELECT operation, entity, outcome FROM log_records";
    let [records, reads] =
        [LogKind::Audit, LogKind::Read].map(|it| server.engine.select_from_log(it, sql));
    let stored = format!("{rows:?}{records:?}{reads:?}");
    let private_key = CERTIFICATE["private_key_pem"].as_str().unwrap();
    let private_key = private_key.lines().nth(1).unwrap();
    let proxy_keys = [text_field(&proxy, "key"), text_field(&created, "key")];
    expect_none_in_clear(&stored, &[secret, private_key, &proxy_keys[0], &proxy_keys[1]]);
}
