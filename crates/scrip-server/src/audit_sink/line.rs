//! A record as a JSON line: the attributes of `GET /logs` with the log, sequence number and MAC. A
//! reader can find gaps and, with the key, verify the record.

use scrip_api::wire::log::{LogBody, body};
use scrip_core::{
    audit::{LogKind, LogRecord},
    types::id::TenantId,
};
use serde::Serialize;
use serde_json::json;

#[derive(Serialize)]
struct AuditLine<'a> {
    log: &'static str,
    sequence: i64,
    #[serde(flatten)]
    record: LogBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<i64>,
    mac: String,
}

pub(super) fn format_record(log: LogKind, record: &LogRecord) -> String {
    let mac = record.link.to_hex();
    let line = AuditLine {
        log: log.as_str(),
        sequence: record.sequence,
        record: body(log, record),
        os_user: record.os_user.as_deref(),
        repeats: record.repeats,
        mac,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Returns the line for `count` records that were pruned after the sequence number `after`.
pub(super) fn format_missing(log: LogKind, tenant: TenantId, after: i64, count: i64) -> String {
    let (log, tenant) = (log.as_str(), tenant.to_string());
    json!({"log": log, "tenant_id": tenant, "sequence": after.saturating_add(1), "missing": count})
        .to_string()
}

/// Returns the line for a rollback: the records written up to this number belong to another chain
/// than the following ones.
pub(super) fn format_rolled_back(log: LogKind, tenant: TenantId, sequence: i64) -> String {
    let (log, tenant) = (log.as_str(), tenant.to_string());
    json!({"log": log, "tenant_id": tenant, "sequence": sequence, "rolled_back": true}).to_string()
}
