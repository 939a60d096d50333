//! The chains of a log: their records, heads and checkpoints.
//!
//! SQLite has a database per log, PostgreSQL has tables for both logs. Each engine supplies its
//! statements; the logic is shared.

use std::sync::LazyLock;

use scrip_core::{
    audit::{
        ChainHead, Checkpoint, LogRow,
        verify::{ChainAnchors, Verifier},
    },
    types::{StoreError, id::TenantId},
};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Parameter, Statements, parameters, read_optional, read_required};

/// An engine's statements for one log. If a statement is about one chain, its first parameter is
/// the tenant.
#[derive(Debug)]
pub(crate) struct ChainStatements {
    pub(crate) list_heads: String,
    /// Heads with the time of their oldest record, read in one snapshot.
    pub(crate) list_chains: String,
    pub(crate) list_checkpoints: String,
    /// Records of all chains, in chain order.
    pub(crate) list_all_records: String,
    /// Records after a number, with a limit.
    pub(crate) list_records: String,
    /// Records from a number to before another, in descending order, with a limit.
    pub(crate) scan_records: String,
    /// The first and the last sequence number.
    pub(crate) find_first_and_last: String,
    /// The earliest and the latest time of a limited number of records from a sequence number on.
    pub(crate) find_time_range: String,
    pub(crate) find_checkpoint: String,
    /// Parameters: tenant, number, link, time and MAC.
    pub(crate) put_checkpoint: String,
    /// Deletes records up to a number.
    pub(crate) delete_pruned: String,
    pub(crate) find_head: String,
    /// Parameters: MAC, tenant, and the number of the last record.
    pub(crate) resign_head: String,
}

/// The columns in the order in which [`decode_log_row`] reads them.
const RECORD_COLUMNS: &str = "tenant, sequence, at, actor_kind, actor, operation, entity, \
    outcome, trace, address, api_key, os_user, repeats, detail, link";

/// Decodes a record. Never panics: a malformed row is an error.
pub(crate) fn decode_log_row(row: &dyn ColumnReader) -> Result<LogRow<'_>, StoreError> {
    Ok(LogRow {
        tenant: read_required(row, 0)?,
        sequence: read_required(row, 1)?,
        at: read_required(row, 2)?,
        actor_kind: read_required(row, 3)?,
        actor: read_optional(row, 4)?,
        operation: read_required(row, 5)?,
        entity: read_required(row, 6)?,
        outcome: read_required(row, 7)?,
        trace: read_required(row, 8)?,
        address: read_required(row, 9)?,
        api_key: read_optional(row, 10)?,
        os_user: read_optional(row, 11)?,
        repeats: read_optional(row, 12)?,
        detail: read_optional(row, 13)?,
        link: read_required(row, 14)?,
    })
}

/// Returns the parameters in the order of [`RECORD_COLUMNS`].
pub(crate) fn log_row_parameters<'a>(row: &'a LogRow<'_>) -> [Parameter<'a>; 15] {
    parameters![
        row.tenant,
        row.sequence,
        row.at,
        row.actor_kind,
        row.actor,
        row.operation,
        row.entity,
        row.outcome,
        row.trace,
        row.address,
        row.api_key,
        row.os_user,
        row.repeats,
        row.detail,
        &row.link,
    ]
}

/// Logs the loss of a head and returns a placeholder. A missing, unreadable or outdated head must
/// not stop the vault: the chain continues after its last record. The chain never has a valid head
/// again, so verification reports it.
pub(crate) fn report_lost_head(tenant: TenantId, sequence: i64, link: Option<Mac>) -> ChainHead {
    tracing::error!(
        %tenant,
        "chain head missing or altered; run: scrip audit verify"
    );
    ChainHead::placeholder(tenant, sequence, link)
}

/// The columns in the order in which [`decode_head`] reads them.
const HEAD_COLUMNS: &str = "it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac";

pub(crate) fn decode_head(row: &dyn ColumnReader) -> Result<ChainHead, StoreError> {
    Ok(ChainHead {
        tenant: read_required(row, 0)?,
        sequence: read_required(row, 1)?,
        at: read_required(row, 2)?,
        link: read_required(row, 3)?,
        retention_seconds: read_optional(row, 4)?,
        mac: read_required(row, 5)?,
    })
}

/// The columns in the order in which [`decode_checkpoint`] reads them.
const CHECKPOINT_COLUMNS: &str = "tenant, sequence, link, at, mac";

/// SQLite has a database per log.
pub(crate) static SQLITE_LOG: LazyLock<ChainStatements> =
    LazyLock::new(|| ChainStatements::new(None));
pub(crate) static POSTGRES_AUDIT_LOG: LazyLock<ChainStatements> =
    LazyLock::new(|| ChainStatements::new(Some("audit")));
pub(crate) static POSTGRES_READ_LOG: LazyLock<ChainStatements> =
    LazyLock::new(|| ChainStatements::new(Some("read")));

impl ChainStatements {
    /// The statements of a log, for an engine with both logs in the same tables.
    fn new(log: Option<&str>) -> Self {
        let condition = log.map_or_else(|| "true".to_owned(), |it| format!("log = '{it}'"));
        let records = format!("FROM log_records WHERE {condition}");
        let heads = format!("FROM chain_heads AS it WHERE {condition}");
        let checkpoints = format!("FROM chain_checkpoints WHERE {condition}");
        let (log_column, log_value, key) = match log {
            None => ("", String::new(), "tenant"),
            Some(log) => ("log, ", format!("'{log}', "), "tenant, log"),
        };
        Self {
            list_heads: format!("-- list_heads\nSELECT {HEAD_COLUMNS} {heads} ORDER BY it.tenant"),
            list_chains: format!(
                "-- list_chains
SELECT {HEAD_COLUMNS}, (SELECT min(at) FROM (
    SELECT * FROM (SELECT at {records} AND tenant = it.tenant ORDER BY sequence LIMIT 1) AS first
    UNION ALL SELECT * FROM (
        SELECT at {records} AND tenant = it.tenant AND actor_kind <> 'operator'
        ORDER BY sequence LIMIT 1) AS first_of_others) AS oldest)
{heads} ORDER BY it.tenant"
            ),
            list_checkpoints: format!(
                "-- list_checkpoints\nSELECT {CHECKPOINT_COLUMNS} {checkpoints} ORDER BY tenant"
            ),
            list_all_records: format!(
                "-- list_all_records\nSELECT {RECORD_COLUMNS} {records} ORDER BY tenant, sequence"
            ),
            list_records: format!(
                "-- list_records
SELECT {RECORD_COLUMNS} {records} AND tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3"
            ),
            scan_records: format!(
                "-- scan_records
SELECT {RECORD_COLUMNS} {records} AND tenant = $1 AND sequence >= $2 AND sequence < $3
ORDER BY sequence DESC LIMIT $4"
            ),
            find_first_and_last: format!(
                "-- find_first_and_last
SELECT (SELECT sequence {records} AND tenant = $1 ORDER BY sequence LIMIT 1),
    (SELECT sequence {records} AND tenant = $1 ORDER BY sequence DESC LIMIT 1)"
            ),
            find_time_range: format!(
                "-- find_time_range
SELECT min(at), max(at) FROM (
    SELECT at {records} AND tenant = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3) AS it"
            ),
            find_checkpoint: format!(
                "-- find_checkpoint\nSELECT {CHECKPOINT_COLUMNS} {checkpoints} AND tenant = $1"
            ),
            put_checkpoint: format!(
                "-- put_checkpoint
INSERT INTO chain_checkpoints (tenant, {log_column}sequence, link, at, mac)
VALUES ($1, {log_value}$2, $3, $4, $5)
ON CONFLICT ({key}) DO UPDATE SET sequence = $2, link = $3, at = $4, mac = $5"
            ),
            delete_pruned: format!(
                "-- delete_pruned\nDELETE {records} AND tenant = $1 AND sequence <= $2"
            ),
            find_head: format!(
                "-- find_chain_head\nSELECT {HEAD_COLUMNS} {heads} AND it.tenant = $1"
            ),
            resign_head: format!(
                "-- resign_head
UPDATE chain_heads SET mac = $1 WHERE tenant = $2 AND sequence = $3 AND {condition}"
            ),
        }
    }
}

#[cfg(test)]
impl ChainStatements {
    pub(crate) fn list_statements(&self) -> Vec<String> {
        let lists = [&self.list_heads, &self.list_chains, &self.list_checkpoints];
        let records = [&self.list_all_records, &self.list_records, &self.scan_records];
        let ends = [&self.find_first_and_last, &self.find_time_range, &self.find_checkpoint];
        let writes = [&self.put_checkpoint, &self.delete_pruned, &self.find_head];
        [lists, records, ends, writes]
            .concat()
            .into_iter()
            .chain([&self.resign_head])
            .cloned()
            .collect()
    }
}

pub(crate) fn decode_checkpoint(row: &dyn ColumnReader) -> Result<Checkpoint, StoreError> {
    Ok(Checkpoint {
        tenant: read_required(row, 0)?,
        sequence: read_required(row, 1)?,
        link: read_required(row, 2)?,
        at: read_required(row, 3)?,
        mac: read_required(row, 4)?,
    })
}

/// The verifier of a log and the expected number of records.
pub(crate) struct VerificationStart {
    pub(crate) verifier: Verifier,
    pub(crate) expected_records: u64,
}

/// Reads heads and checkpoints. Reports rows that cannot be decoded to the verifier.
pub(crate) async fn begin_verification(
    client: &impl Statements,
    statements: &ChainStatements,
    create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
) -> Result<VerificationStart, StoreError> {
    let decode = |row: &dyn ColumnReader| Ok(decode_head(row).map_err(|_| decode_tenant_id(row)));
    let (heads, mut unreadable) =
        split_readable(client.query(&statements.list_heads, &[], decode).await?);
    let decode =
        |row: &dyn ColumnReader| Ok(decode_checkpoint(row).map_err(|_| decode_tenant_id(row)));
    let (checkpoints, unreadable_checkpoints) =
        split_readable(client.query(&statements.list_checkpoints, &[], decode).await?);
    unreadable.extend(unreadable_checkpoints);
    let pruned_records: i64 = checkpoints.iter().fold(0, |sum, it| sum.saturating_add(it.sequence));
    let all_records = heads.iter().fold(0_i64, |sum, it| sum.saturating_add(it.sequence));
    let expected_records =
        u64::try_from(all_records.saturating_sub(pruned_records)).unwrap_or_default();
    let mut verifier = create_verifier(ChainAnchors { heads, checkpoints });
    for tenant in unreadable {
        verifier.report_unreadable(tenant);
    }
    Ok(VerificationStart { verifier, expected_records })
}

/// Passes a record to the verifier, or reports that it cannot be decoded.
pub(crate) fn verify_row(verifier: &mut Verifier, row: &dyn ColumnReader) {
    match decode_log_row(row) {
        Ok(record) => verifier.verify_record(&record),
        Err(_) => verifier.report_unreadable(decode_tenant_id(row)),
    }
}

/// Decoded rows, and the tenants of rows that cannot be decoded.
type SplitRows<T> = (Vec<T>, Vec<Option<TenantId>>);

fn split_readable<T>(rows: Vec<Result<T, Option<TenantId>>>) -> SplitRows<T> {
    let (mut decoded, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Ok(it) => decoded.push(it),
            Err(tenant) => unreadable.push(tenant),
        }
    }
    (decoded, unreadable)
}

fn decode_tenant_id(row: &dyn ColumnReader) -> Option<TenantId> {
    read_required(row, 0).ok()
}
