//! List Logs, and List Log Entity Types.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{PolicyPermit, Quotas},
};
use serde_json::{Value, json};

use crate::harness::server::{
    TenantApiKeys, TestResponse, TestServer, text_field, unique_card_number,
};

/// Creates a tenant with a token that was read, changed and deleted, and with one denied read.
fn create_recorded_tenant() -> (TestServer, TenantApiKeys) {
    let (server, keys) = TestServer::start_with_tenant();
    let advance_clock = || server.clock.advance(Duration::from_secs(1));
    advance_clock();
    server.create_token_ok(
        &keys.private,
        &json!({"id": "token-1", "type": "token", "data": "secret"}),
    );
    advance_clock();
    server.get_token(&keys.private, "token-1").expect_status(200);
    advance_clock();
    server
        .patch_token(&keys.private, "token-1", &json!({"metadata": {"a": "b"}}))
        .expect_status(200);
    advance_clock();
    server.get_token(&keys.public, "token-1").expect_status(403);
    advance_clock();
    server.delete(&keys.private, "/tokens/token-1").expect_status(204);
    advance_clock();
    (server, keys)
}

fn list(server: &TestServer, keys: &TenantApiKeys, query: &str) -> TestResponse {
    server.get_path(&keys.management, &format!("/logs{query}"))
}

fn data(response: &TestResponse) -> Vec<Value> {
    response.expect_status(200)["data"].as_array().unwrap().clone()
}

fn operations_and_outcomes(records: &[Value]) -> Vec<(String, String)> {
    records.iter().map(|it| (text_field(it, "operation"), text_field(it, "outcome"))).collect()
}

#[test]
fn logs_list_changes_and_reads_newest_first() {
    let (server, keys) = create_recorded_tenant();
    let records = data(&list(&server, &keys, "?entity_type=token"));
    let expected = [
        ("delete_token", "deleted"),
        ("get_token", "forbidden"),
        ("update_token", "updated"),
        ("get_token", "revealed"),
        ("create_token", "created"),
    ];
    let expected = expected
        .map(|(operation_name, outcome_name)| (operation_name.to_owned(), outcome_name.to_owned()));
    assert_eq!(operations_and_outcomes(&records), expected);
    let first = &records[4];
    let private_application =
        server.get_path(&keys.private, "/applications/key").expect_status(200);
    assert_eq!(first["tenant_id"], keys.tenant.id.to_string());
    assert_eq!(first["actor_id"], private_application["id"]);
    assert_eq!(first["actor_type"], "application");
    assert_eq!(first["entity_type"], "token");
    assert_eq!(first["entity_id"], "token-1");
    assert_eq!(first["message"], "Create token: the token was created.");
    assert_eq!(first["address"], "127.0.0.1");
    assert!(!text_field(first, "trace_id").is_empty());
    assert!(text_field(first, "created_at").ends_with("+00:00"));
    assert!(text_field(first, "id").starts_with("audit-"));
    assert!(text_field(&records[3], "id").starts_with("read-"));
    // The denied read has no entity id, because the public key may not look up tokens.
    assert!(records[1].get("entity_id").is_none());
    // A record of the operator has neither an actor id nor a trace id.
    let tenant = data(&list(&server, &keys, "?entity_type=tenant&operation=create_tenant"));
    assert_eq!((&tenant[0]["actor_type"], tenant.len()), (&json!("operator"), 1));
    assert!(tenant[0].get("actor_id").is_none() && tenant[0].get("trace_id").is_none());
}

#[test]
fn logs_are_filtered_by_entity_operation_outcome_and_date() {
    let (server, keys) = create_recorded_tenant();
    let token_records = data(&list(&server, &keys, "?entity_type=token"));
    let date_of =
        |index: usize| text_field(&token_records[index], "created_at").replace('+', "%2B");
    let count = |query: &str| data(&list(&server, &keys, query)).len();
    assert_eq!(count("?entity_id=token-1"), 4);
    assert_eq!(count("?entity_id=token-1&entity_type=application"), 0);
    assert_eq!(count("?entity_id=token-2"), 0);
    assert_eq!(count("?operation=get_token&entity_type=token"), 2);
    assert_eq!(count("?outcome=forbidden"), 1);
    let actor = text_field(&token_records[0], "actor_id");
    assert_eq!(count(&format!("?entity_type=token&actor_id={actor}")), 4);
    // The start date is inclusive, the end date exclusive. The records differ by one second and
    // have a resolution of one second.
    let (start_date, end_date) = (date_of(3), date_of(1));
    let query = format!("?entity_type=token&start_date={start_date}&end_date={end_date}");
    assert_eq!(count(&query), 2);
    assert_eq!(count(&format!("?entity_type=token&start_date={start_date}")), 4);
    assert_eq!(count(&format!("?entity_type=token&end_date={start_date}")), 1);
    assert_eq!(count("?end_date=8/27/2020"), 0);
    assert_eq!(count("?start_date=2100-01-01T00:00:00Z"), 0);
    assert_eq!(count("?start_date=2020-01-01T00:00:00&entity_id=token-1"), 4);
    for (query, attribute) in [
        ("?entity_type=robot", "entity_type"),
        ("?entity_type=", "entity_type"),
        ("?entity_type=token&entity_type=token", "entity_type"),
        ("?operation=guess", "operation"),
        ("?outcome=maybe", "outcome"),
        ("?actor_id=me", "actor_id"),
        ("?api_key_id=key_test_us_pvt_x", "api_key_id"),
        ("?start_date=yesterday", "start_date"),
        ("?end_date=2030-13-01T00:00:00Z", "end_date"),
        ("?size=0", "size"),
        ("?page=0", "page"),
        ("?start=nonsense", "start"),
    ] {
        list(&server, &keys, query).expect_invalid(attribute);
    }
    let unknown_type = list(&server, &keys, "?entity_type=tokn").expect_status(400);
    let rule = "is not a known value; GET /logs/entity-types lists them";
    assert_eq!(unknown_type["errors"]["entity_type"], json!([rule]));
    let query_with_long_id = format!("?entity_id={}", "a".repeat(513));
    list(&server, &keys, &query_with_long_id).expect_invalid("entity_id");
}

#[test]
fn log_pages_by_cursor_and_by_number_match() {
    let (server, keys) = create_recorded_tenant();
    // Each page read adds a record. These records are excluded from the comparison.
    let without_list_reads = |mut records: Vec<Value>| {
        records.retain(|it| it["operation"] != "list_logs");
        records
    };
    let all_records = without_list_reads(data(&list(&server, &keys, "?size=100")));
    let ids = |records: &[Value]| records.iter().map(|it| text_field(it, "id")).collect::<Vec<_>>();
    assert!(all_records.len() > 8);
    let (mut by_cursor, mut query) = (Vec::new(), "?size=3".to_owned());
    loop {
        let response = list(&server, &keys, &query);
        by_cursor.extend(data(&response));
        let pagination = &response.json()["pagination"];
        assert_eq!(pagination["page_size"], 3);
        let Some(next) = pagination["next"].as_str() else { break };
        query = format!("?size=3&start={next}");
    }
    assert_eq!(ids(&without_list_reads(by_cursor)), ids(&all_records));
    let mut by_number = Vec::new();
    for page in 1.. {
        let records = data(&list(&server, &keys, &format!("?size=3&page={page}")));
        if records.is_empty() {
            break;
        }
        by_number.extend(records);
    }
    assert_eq!(ids(&by_number), ids(&all_records));
    let mut unique = ids(&all_records);
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), all_records.len());
    // A cursor belongs to one query and one application.
    let next = text_field(&list(&server, &keys, "?size=3").json()["pagination"], "next");
    list(&server, &keys, &format!("?entity_type=token&start={next}")).expect_invalid("start");
    let other_tenant_keys = server.create_default_tenant();
    list(&server, &other_tenant_keys, &format!("?start={next}")).expect_invalid("start");
}

#[test]
fn records_older_than_the_retention_are_not_listed() {
    let (server, keys) = create_recorded_tenant();
    let count = || data(&list(&server, &keys, "?entity_id=token-1")).len();
    server.clock.advance(Duration::from_secs(23 * 60 * 60));
    assert_eq!(count(), 4);
    let set_retention = |seconds: u64| {
        let edit_quotas = move |quotas| Quotas { log_retention_seconds: seconds, ..quotas };
        let permit = PolicyPermit::for_operator(Arc::clone(&keys.tenant));
        server.runtime.block_on(async {
            set_tenant_quotas(&server.app.vault, permit, Box::new(edit_quotas)).await.unwrap();
            server.app.reload().await.unwrap();
        });
    };
    set_retention(22 * 60 * 60);
    assert_eq!(count(), 0);
    // The record is hidden although the sweeper has not deleted it.
    set_retention(25 * 60 * 60);
    assert_eq!(count(), 4);
    server.clock.advance(Duration::from_secs(2 * 60 * 60));
    assert_eq!(count(), 0);
}

#[test]
fn logs_contain_no_submitted_values() {
    let (server, keys) = TestServer::start_with_tenant();
    let number = unique_card_number();
    server.create_token_ok(&keys.private, &crate::harness::server::card_body(&number));
    server.get_token(&keys.private, &number).expect_status(404);
    let log_page = list(&server, &keys, "?size=100");
    assert!(log_page.expect_status(200)["data"].as_array().unwrap().len() > 2);
    assert!(!log_page.text.contains(&number));
}

#[test]
fn log_entity_types_can_be_listed_and_used_as_filters() {
    let (server, keys) = create_recorded_tenant();
    let types = list(&server, &keys, "/entity-types").expect_status(200);
    let types = types.as_array().unwrap();
    assert_eq!(types[0], json!({"display_name": "Token", "value": "token"}));
    for it in types {
        list(&server, &keys, &format!("?entity_type={}", text_field(it, "value")))
            .expect_status(200);
    }
    server.get_path(&keys.private, "/logs/entity-types").expect_status(403);
}
