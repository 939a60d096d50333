//! What the audit trail says about keys, about reads of itself, and about requests without a key.

use scrip_core::{audit::Log, id::TenantId, policy::Settings};
use serde_json::{Value, json};

use crate::harness::server::{Keys, Server, text};

/// Ids of the API keys of the application behind this key.
fn key_ids(server: &Server, keys: &Keys, key: &str) -> Vec<String> {
    let application = text(&server.fetch(key, "/applications/key").is(200), "id");
    let listed = server.fetch(&keys.management, &format!("/applications/{application}/keys"));
    listed.is(200).as_array().unwrap().iter().map(|it| text(it, "id")).collect()
}

fn logs(server: &Server, keys: &Keys, query: &str) -> Vec<Value> {
    let reply = server.fetch(&keys.management, &format!("/logs{query}"));
    reply.is(200)["data"].as_array().unwrap().clone()
}

#[test]
fn log_records_name_the_api_key_of_the_request() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let application = text(&server.fetch(&keys.private, "/applications/key").is(200), "id");
    let path = format!("/applications/{application}/keys");
    let second = server.post(&keys.management, &path, &json!({})).is(201);
    let first_id = key_ids(&server, &keys, &keys.private)
        .into_iter()
        .find(|it| *it != text(&second, "id"))
        .unwrap();
    let token = |id: &str| json!({"id": id, "type": "token", "data": "secret"});
    server.created(&keys.private, &token("token-1"));
    server.created(&text(&second, "key"), &token("token-2"));
    server.get(&keys.private, "token-2").is(200);
    let key_of = |query: &str| {
        let records = logs(&server, &keys, query);
        assert_eq!(records.len(), 1, "{query}");
        text(&records[0], "api_key_id")
    };
    assert_eq!(key_of("?operation=create_token&entity_id=token-1"), first_id);
    assert_eq!(key_of("?operation=create_token&entity_id=token-2"), text(&second, "id"));
    assert_eq!(key_of("?operation=get_token&entity_id=token-2"), first_id);
    // What the operator did was done without a key.
    let created = logs(&server, &keys, "?operation=create_tenant");
    assert!(created[0].get("api_key_id").is_none(), "{created:?}");
}

#[test]
fn each_page_of_the_log_that_is_read_leaves_a_record() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let reads = || logs(&server, &keys, "?operation=list_logs").len();
    assert_eq!(reads(), 0);
    assert_eq!(reads(), 1);
    let page = server.fetch(&keys.management, "/logs?size=1").is(200);
    let next = text(&page["pagination"], "next");
    server.fetch(&keys.management, &format!("/logs?size=1&start={next}")).is(200);
    assert_eq!(reads(), 4);
    let read = &logs(&server, &keys, "?operation=list_logs&size=1")[0];
    assert_eq!((&read["outcome"], &read["actor_type"]), (&json!("read"), &json!("application")));
    assert!(key_ids(&server, &keys, &keys.management).contains(&text(read, "api_key_id")));
}

#[test]
fn pages_of_the_log_by_number_do_not_move_when_they_are_read() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    for at in 0..5 {
        let token = json!({"id": format!("token-{at}"), "type": "token", "data": "secret"});
        server.created(&keys.private, &token);
    }
    let mut seen = Vec::new();
    for page in 1.. {
        let records = logs(&server, &keys, &format!("?page={page}&size=2"));
        if records.is_empty() {
            break;
        }
        seen.extend(records.iter().map(|it| text(it, "id")));
    }
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "{seen:?}");
}

#[test]
fn failed_authentication_is_one_record_per_address_with_a_count() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let key = "key_test_us_pvt_NobodyHasThisKey4242";
    for _ in 0..5 {
        server.fetch(key, "/tokens/some").is(401);
    }
    for _ in 0..2 {
        server.ask("GET", "/tokens/some").send().is(401);
    }
    server.get(&keys.private, "none").is(404);
    let write = || {
        let (failures, vault) = (&server.app.auth_failures, &server.app.vault);
        server.runtime.block_on(failures.write(vault));
    };
    write();
    write();
    let of_vault = server.engine.id(TenantId::VAULT.0);
    let sql = format!(
        "SELECT actor_kind, outcome, address, repeats, entity, trace FROM audit \
         WHERE tenant = {of_vault} AND operation = 'authenticate'"
    );
    let records = server.engine.select_of(Log::Access, &sql);
    assert_eq!(records, [["outsider", "unauthenticated", "127.0.0.1", "7", "", ""]]);
    let all = server.engine.select_of(Log::Access, "SELECT entity, address, trace FROM audit");
    assert!(!format!("{all:?}").contains("4242"), "a key is in the log");
}
