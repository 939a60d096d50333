//! Compares the examples of the OpenAPI document with rendered responses.

use scrip_core::{
    Timestamp,
    audit::{LogKind, LogRecord},
    types::{
        Operation,
        id::{ApiKeyId, ApplicationId, TenantId},
    },
};
use scrip_seal::Mac;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    openapi::tests::{assert_examples, assert_limit_usize},
    wire::{
        log::{ENTITY_CHARS_MAX, body, render_entity_types},
        query::PageBody,
        tokens::list::CursorPagination,
    },
};

#[test]
fn documented_log_examples_match_rendered_records() {
    let record = record();
    let page = |next: Option<&str>| {
        let pagination = CursorPagination { page_size: 20, next: next.map(str::to_owned) };
        json!(PageBody { pagination, data: vec![body(LogKind::Read, &record)] })
    };
    assert_examples("Log", [json!(body(LogKind::Read, &record))]);
    assert_examples("LogPage", [page(Some("AgEAAAAB3Q0rXw")), page(None)]);
    let types: Vec<Value> = serde_json::from_str(&render_entity_types().body).unwrap();
    assert_examples("LogEntityType", types.into_iter().take(1));
}

#[test]
fn documented_entity_id_limit_matches_the_code() {
    assert_limit_usize(&["list_logs.entity_id"], "maxLength", ENTITY_CHARS_MAX);
}

fn record() -> LogRecord {
    let id = |byte| Uuid::from_bytes([byte; 16]);
    LogRecord {
        tenant: TenantId(id(0x5f)),
        sequence: 17,
        at: Timestamp { unix_ms: 1_793_525_400_000 },
        actor_kind: "application".to_owned(),
        actor: Some(ApplicationId(id(0x0b))),
        operation: Operation::GetToken.as_str().to_owned(),
        entity: id(0xd3).to_string(),
        outcome: "masked".to_owned(),
        trace: "7f3b".to_owned(),
        address: "192.0.2.7".to_owned(),
        api_key: Some(ApiKeyId(id(0x4c))),
        os_user: None,
        detail: None,
        repeats: None,
        link: Mac([0; 32]),
    }
}
