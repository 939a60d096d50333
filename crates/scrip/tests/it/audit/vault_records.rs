//! Audit records of API keys, of log reads, and of requests without a valid key.

use scrip_core::{audit::LogKind, types::id::TenantId};
use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use crate::harness::server::{TenantApiKeys, TestServer, text_field};

/// Returns the ids of the API keys of the application that this key belongs to.
fn key_ids(server: &TestServer, keys: &TenantApiKeys, key: &str) -> Vec<String> {
    let application =
        text_field(&server.get_path(key, "/applications/key").expect_status(200), "id");
    let list_response =
        server.get_path(&keys.management, &format!("/applications/{application}/keys"));
    list_response
        .expect_status(200)
        .as_array()
        .unwrap()
        .iter()
        .map(|it| text_field(it, "id"))
        .collect()
}

fn logs(server: &TestServer, keys: &TenantApiKeys, query: &str) -> Vec<Value> {
    let response = server.get_path(&keys.management, &format!("/logs{query}"));
    response.expect_status(200)["data"].as_array().unwrap().clone()
}

#[test]
fn log_records_name_the_api_key_of_the_request() {
    let (server, keys) = TestServer::start_with_tenant();
    let application =
        text_field(&server.get_path(&keys.private, "/applications/key").expect_status(200), "id");
    let path = format!("/applications/{application}/keys");
    let second_key = server.post(&keys.management, &path, &json!({})).expect_status(201);
    let first_id = key_ids(&server, &keys, &keys.private)
        .into_iter()
        .find(|it| *it != text_field(&second_key, "id"))
        .unwrap();
    let token = |id: &str| json!({"id": id, "type": "token", "data": "secret"});
    server.create_token_ok(&keys.private, &token("token-1"));
    server.create_token_ok(&text_field(&second_key, "key"), &token("token-2"));
    server.get_token(&keys.private, "token-2").expect_status(200);
    let key_of = |query: &str| {
        let records = logs(&server, &keys, query);
        assert_eq!(records.len(), 1, "{query}");
        text_field(&records[0], "api_key_id")
    };
    assert_eq!(key_of("?operation=create_token&entity_id=token-1"), first_id);
    assert_eq!(key_of("?operation=create_token&entity_id=token-2"), text_field(&second_key, "id"));
    assert_eq!(key_of("?operation=get_token&entity_id=token-2"), first_id);
    let second_id = text_field(&second_key, "id");
    assert_eq!(logs(&server, &keys, &format!("?api_key_id={first_id}&entity_type=token")).len(), 2);
    assert_eq!(logs(&server, &keys, &format!("?api_key_id={second_id}")).len(), 1);
    // The operator acts without an API key.
    let created = logs(&server, &keys, "?operation=create_tenant");
    assert!(created[0].get("api_key_id").is_none(), "{created:?}");
}

#[test]
fn each_log_page_read_writes_a_record() {
    let (server, keys) = TestServer::start_with_tenant();
    let count_reads = || logs(&server, &keys, "?operation=list_logs").len();
    assert_eq!(count_reads(), 0);
    assert_eq!(count_reads(), 1);
    let page = server.get_path(&keys.management, "/logs?size=1").expect_status(200);
    let next = text_field(&page["pagination"], "next");
    server.get_path(&keys.management, &format!("/logs?size=1&start={next}")).expect_status(200);
    assert_eq!(count_reads(), 4);
    let read_record = &logs(&server, &keys, "?operation=list_logs&size=1")[0];
    assert_members(read_record, &json!({"outcome": "read", "actor_type": "application"}));
    let ids = key_ids(&server, &keys, &keys.management);
    assert!(ids.contains(&text_field(read_record, "api_key_id")));
}

#[test]
fn log_page_numbers_are_stable_while_reads_are_recorded() {
    let (server, keys) = TestServer::start_with_tenant();
    for index in 0..5 {
        let token = json!({"id": format!("token-{index}"), "type": "token", "data": "secret"});
        server.create_token_ok(&keys.private, &token);
    }
    let mut listed_ids = Vec::new();
    for page in 1.. {
        let records = logs(&server, &keys, &format!("?page={page}&size=2"));
        if records.is_empty() {
            break;
        }
        listed_ids.extend(records.iter().map(|it| text_field(it, "id")));
    }
    let mut unique_ids = listed_ids.clone();
    unique_ids.sort_unstable();
    unique_ids.dedup();
    assert_eq!(unique_ids.len(), listed_ids.len(), "{listed_ids:?}");
}

#[test]
fn failed_authentication_is_one_record_per_address_with_a_count() {
    let (server, keys) = TestServer::start_with_tenant();
    let key = "key_test_us_pvt_NobodyHasThisKey4242";
    for _ in 0..5 {
        server.get_path(key, "/tokens/some").expect_status(401);
    }
    for _ in 0..2 {
        server.request("GET", "/tokens/some").send().expect_status(401);
    }
    server.get_token(&keys.private, "none").expect_status(404);
    let write_counts = || {
        let (failures, vault) = (&server.app.auth_failures, &server.app.vault);
        server.runtime.block_on(failures.write_audit_records(vault));
    };
    write_counts();
    write_counts();
    let of_vault = server.engine.sql_id(TenantId::VAULT.0);
    let sql = format!(
        "SELECT actor_kind, outcome, address, repeats, entity, trace FROM log_records \
         WHERE tenant = {of_vault} AND operation = 'authenticate'"
    );
    let records = server.engine.select_from_log(LogKind::Read, &sql);
    // The server writes the counts every minute, which may be in the middle of a slow test.
    assert!(matches!(records.len(), 1 | 2), "{records:?}");
    let mut count = 0;
    for record in &records {
        count += record[3].parse::<u32>().unwrap();
        let expected = ["unauthenticated", "unauthenticated", "127.0.0.1", &record[3], "", ""];
        assert_eq!(record.as_slice(), expected);
    }
    assert_eq!(count, 7);
    let failure_records = server
        .engine
        .select_from_log(LogKind::Read, "SELECT entity, address, trace FROM log_records");
    assert!(!format!("{failure_records:?}").contains("4242"), "the log contains a submitted key");
}
