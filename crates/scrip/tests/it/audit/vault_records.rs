//! What the audit trail says about keys, about reads of itself, and about requests without a key.

use scrip_core::{audit::LogKind, id::TenantId, policy::TenantSettings};
use serde_json::{Value, json};

use crate::harness::server::{TenantApiKeys, TestServer, text_field};

/// Ids of the API keys of the application behind this key.
fn key_ids(server: &TestServer, keys: &TenantApiKeys, key: &str) -> Vec<String> {
    let application =
        text_field(&server.get_path(key, "/applications/key").expect_status(200), "id");
    let listed = server.get_path(&keys.management, &format!("/applications/{application}/keys"));
    listed.expect_status(200).as_array().unwrap().iter().map(|it| text_field(it, "id")).collect()
}

fn logs(server: &TestServer, keys: &TenantApiKeys, query: &str) -> Vec<Value> {
    let reply = server.get_path(&keys.management, &format!("/logs{query}"));
    reply.expect_status(200)["data"].as_array().unwrap().clone()
}

#[test]
fn log_records_name_the_api_key_of_the_request() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let application =
        text_field(&server.get_path(&keys.private, "/applications/key").expect_status(200), "id");
    let path = format!("/applications/{application}/keys");
    let second = server.post(&keys.management, &path, &json!({})).expect_status(201);
    let first_id = key_ids(&server, &keys, &keys.private)
        .into_iter()
        .find(|it| *it != text_field(&second, "id"))
        .unwrap();
    let token = |id: &str| json!({"id": id, "type": "token", "data": "secret"});
    server.create_token_ok(&keys.private, &token("token-1"));
    server.create_token_ok(&text_field(&second, "key"), &token("token-2"));
    server.get_token(&keys.private, "token-2").expect_status(200);
    let key_of = |query: &str| {
        let records = logs(&server, &keys, query);
        assert_eq!(records.len(), 1, "{query}");
        text_field(&records[0], "api_key_id")
    };
    assert_eq!(key_of("?operation=create_token&entity_id=token-1"), first_id);
    assert_eq!(key_of("?operation=create_token&entity_id=token-2"), text_field(&second, "id"));
    assert_eq!(key_of("?operation=get_token&entity_id=token-2"), first_id);
    // What the operator did was done without a key.
    let created = logs(&server, &keys, "?operation=create_tenant");
    assert!(created[0].get("api_key_id").is_none(), "{created:?}");
}

#[test]
fn each_log_page_read_writes_a_record() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let reads = || logs(&server, &keys, "?operation=list_logs").len();
    assert_eq!(reads(), 0);
    assert_eq!(reads(), 1);
    let page = server.get_path(&keys.management, "/logs?size=1").expect_status(200);
    let next = text_field(&page["pagination"], "next");
    server.get_path(&keys.management, &format!("/logs?size=1&start={next}")).expect_status(200);
    assert_eq!(reads(), 4);
    let read = &logs(&server, &keys, "?operation=list_logs&size=1")[0];
    assert_eq!((&read["outcome"], &read["actor_type"]), (&json!("read"), &json!("application")));
    assert!(key_ids(&server, &keys, &keys.management).contains(&text_field(read, "api_key_id")));
}

#[test]
fn log_page_numbers_are_stable_while_reads_are_recorded() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    for at in 0..5 {
        let token = json!({"id": format!("token-{at}"), "type": "token", "data": "secret"});
        server.create_token_ok(&keys.private, &token);
    }
    let mut seen = Vec::new();
    for page in 1.. {
        let records = logs(&server, &keys, &format!("?page={page}&size=2"));
        if records.is_empty() {
            break;
        }
        seen.extend(records.iter().map(|it| text_field(it, "id")));
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "{seen:?}");
}

#[test]
fn failed_authentication_is_one_record_per_address_with_a_count() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let key = "key_test_us_pvt_NobodyHasThisKey4242";
    for _ in 0..5 {
        server.get_path(key, "/tokens/some").expect_status(401);
    }
    for _ in 0..2 {
        server.request("GET", "/tokens/some").send().expect_status(401);
    }
    server.get_token(&keys.private, "none").expect_status(404);
    let write = || {
        let (failures, vault) = (&server.app.auth_failures, &server.app.vault);
        server.runtime.block_on(failures.write_audit_records(vault));
    };
    write();
    write();
    let of_vault = server.engine.sql_id(TenantId::VAULT.0);
    let sql = format!(
        "SELECT actor_kind, outcome, address, repeats, entity, trace FROM audit \
         WHERE tenant = {of_vault} AND operation = 'authenticate'"
    );
    let records = server.engine.select_from_log(LogKind::Read, &sql);
    assert_eq!(records, [["outsider", "unauthenticated", "127.0.0.1", "7", "", ""]]);
    let all =
        server.engine.select_from_log(LogKind::Read, "SELECT entity, address, trace FROM audit");
    assert!(!format!("{all:?}").contains("4242"), "a key is in the log");
}
