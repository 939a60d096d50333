//! A record as a line of JSON: what `GET /logs` shows of it, its log, its number, and its mac, so that
//! somebody else can see gaps and, with the key, check it.

use scrip_api::wire::log::{LogBody, body};
use scrip_core::{
    audit::{LogKind, LogRecord},
    id::TenantId,
};
use serde::Serialize;
use serde_json::json;

#[derive(Serialize)]
struct AuditLine<'a> {
    log: &'static str,
    n: i64,
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
        n: record.sequence,
        record: body(log, record),
        os_user: record.os_user.as_deref(),
        repeats: record.repeats,
        mac,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// What cannot be told any more: so many, from this number on.
pub(super) fn format_missing(log: LogKind, tenant: TenantId, after: i64, count: i64) -> String {
    let (log, tenant) = (log.as_str(), tenant.to_string());
    json!({"log": log, "tenant_id": tenant, "n": after.saturating_add(1), "missing": count})
        .to_string()
}

/// What was told up to this number is of another chain than what follows.
pub(super) fn format_rolled_back(log: LogKind, tenant: TenantId, n: i64) -> String {
    let (log, tenant) = (log.as_str(), tenant.to_string());
    json!({"log": log, "tenant_id": tenant, "n": n, "rolled_back": true}).to_string()
}
