//! The chains of a log: their records, heads and checkpoints, read and pruned.
//!
//! The embedded engine has a database for each log, and PostgreSQL tables for both. So an engine
//! names its tables, and what is done with them is the same.

use scrip_core::{
    audit::{
        ChainHead, Checkpoint, LogRecord, LogRow, PruneChain,
        verify::{ChainAnchors, Verifier},
    },
    id::TenantId,
    store::StoreError,
};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Execute, Parameter, Statements, optional, parameters, required};

/// An engine's statements about one log. The first parameter of those about one chain is its tenant.
#[derive(Debug)]
pub(crate) struct ChainStatements {
    pub(crate) list_heads: &'static str,
    /// Heads, each with the time of the oldest record. One statement sees one instant.
    pub(crate) list_chains: &'static str,
    pub(crate) list_checkpoints: &'static str,
    /// Of every chain, in their order.
    pub(crate) list_all_records: &'static str,
    /// Behind a number, so many at most.
    pub(crate) list_records: &'static str,
    /// From a number to before another, so many at most, the last first.
    pub(crate) scan_records: &'static str,
    /// The first number and the last.
    pub(crate) find_first_and_last: &'static str,
    /// The earliest time and the latest of so many records from a number on.
    pub(crate) find_time_range: &'static str,
    pub(crate) find_checkpoint: &'static str,
    /// Number, link, time and mac.
    pub(crate) put_checkpoint: &'static str,
    /// Up to a number.
    pub(crate) delete_pruned: &'static str,
}

/// In the order that [`log_row`] reads them.
macro_rules! record_columns {
    () => {
        "tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, \
         os_user, repeats, link"
    };
}
pub(crate) use record_columns;

/// Any row gives a value or an error.
pub(crate) fn decode_log_row(row: &dyn ColumnReader) -> Result<LogRow<'_>, StoreError> {
    Ok(LogRow {
        tenant: required(row, 0)?,
        sequence: required(row, 1)?,
        at: required(row, 2)?,
        actor_kind: required(row, 3)?,
        actor: optional(row, 4)?,
        operation: required(row, 5)?,
        entity: required(row, 6)?,
        outcome: required(row, 7)?,
        trace: required(row, 8)?,
        address: required(row, 9)?,
        api_key: optional(row, 10)?,
        os_user: optional(row, 11)?,
        repeats: optional(row, 12)?,
        link: required(row, 13)?,
    })
}

/// In the same order.
pub(crate) fn log_row_parameters<'a>(row: &'a LogRow<'_>) -> [Parameter<'a>; 14] {
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
        &row.link,
    ]
}

/// Nobody must be able to stop a vault by a head that is missing, unreadable or of another time.
/// The chain goes on behind its last record, and never has a valid head again: verifying finds it.
pub(crate) fn report_lost_head(tenant: TenantId, n: i64, link: Option<Mac>) -> ChainHead {
    tracing::error!(
        %tenant,
        "the head of a chain of records is missing or altered; run: scrip audit verify"
    );
    ChainHead::placeholder(tenant, n, link)
}

/// In the order that [`head`] reads them.
macro_rules! head_columns {
    () => {
        "it.tenant, it.n, it.at, it.link, it.retention_seconds, it.mac"
    };
}
pub(crate) use head_columns;

pub(crate) fn decode_head(row: &dyn ColumnReader) -> Result<ChainHead, StoreError> {
    Ok(ChainHead {
        tenant: required(row, 0)?,
        sequence: required(row, 1)?,
        at: required(row, 2)?,
        link: required(row, 3)?,
        retention_seconds: optional(row, 4)?,
        mac: required(row, 5)?,
    })
}

/// In the order that [`checkpoint`] reads them.
macro_rules! checkpoint_columns {
    () => {
        "tenant, n, link, at, mac"
    };
}

/// What stands behind a name of a table is which of its rows are of the log.
macro_rules! chain_statements {
    ($records:literal, $heads:literal, $checkpoints:literal, $put_checkpoint:literal) => {
        ChainStatements {
            list_heads: concat!(
                "-- list_heads\nSELECT ",
                head_columns!(),
                $heads,
                " ORDER BY it.tenant"
            ),
            list_chains: concat!(
                "-- list_chains\nSELECT ",
                head_columns!(),
                ", (SELECT min(at) FROM (SELECT * FROM (SELECT at",
                $records,
                " AND tenant = it.tenant ORDER BY n LIMIT 1) AS first
    UNION ALL SELECT * FROM (SELECT at",
                $records,
                " AND tenant = it.tenant AND actor_kind <> 'operator'
        ORDER BY n LIMIT 1) AS first_of_others) AS oldest)",
                $heads,
                " ORDER BY it.tenant"
            ),
            list_checkpoints: concat!(
                "-- list_checkpoints\nSELECT ",
                checkpoint_columns!(),
                $checkpoints,
                " ORDER BY tenant"
            ),
            list_all_records: concat!(
                "-- list_all_records\nSELECT ",
                record_columns!(),
                $records,
                " ORDER BY tenant, n"
            ),
            list_records: concat!(
                "-- list_records\nSELECT ",
                record_columns!(),
                $records,
                " AND tenant = $1 AND n > $2 ORDER BY n LIMIT $3"
            ),
            scan_records: concat!(
                "-- walk_records\nSELECT ",
                record_columns!(),
                $records,
                " AND tenant = $1 AND n >= $2 AND n < $3 ORDER BY n DESC LIMIT $4"
            ),
            find_first_and_last: concat!(
                "-- find_ends\nSELECT (SELECT n",
                $records,
                " AND tenant = $1 ORDER BY n LIMIT 1), (SELECT n",
                $records,
                " AND tenant = $1 ORDER BY n DESC LIMIT 1)"
            ),
            find_time_range: concat!(
                "-- find_times\nSELECT min(at), max(at) FROM (SELECT at",
                $records,
                " AND tenant = $1 AND n >= $2 ORDER BY n LIMIT $3) AS it"
            ),
            find_checkpoint: concat!(
                "-- find_checkpoint\nSELECT ",
                checkpoint_columns!(),
                $checkpoints,
                " AND tenant = $1"
            ),
            put_checkpoint: concat!(
                "-- put_checkpoint\n",
                $put_checkpoint,
                " DO UPDATE SET n = $2, link = $3, at = $4, mac = $5"
            ),
            delete_pruned: concat!(
                "-- delete_pruned\nDELETE",
                $records,
                " AND tenant = $1 AND n <= $2"
            ),
        }
    };
}

/// Each log has a database of its own.
pub(crate) const SQLITE_LOG: ChainStatements = chain_statements!(
    " FROM audit WHERE true",
    " FROM audit_heads AS it WHERE true",
    " FROM audit_checkpoints WHERE true",
    "INSERT INTO audit_checkpoints (tenant, n, link, at, mac) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant)"
);

pub(crate) const POSTGRES_AUDIT_LOG: ChainStatements = chain_statements!(
    " FROM records WHERE log = 'audit'",
    " FROM heads AS it WHERE it.log = 'audit'",
    " FROM checkpoints WHERE log = 'audit'",
    "INSERT INTO checkpoints (tenant, log, n, link, at, mac) VALUES ($1, 'audit', $2, $3, $4, $5)
ON CONFLICT (tenant, log)"
);

pub(crate) const POSTGRES_ACCESS_LOG: ChainStatements = chain_statements!(
    " FROM records WHERE log = 'access'",
    " FROM heads AS it WHERE it.log = 'access'",
    " FROM checkpoints WHERE log = 'access'",
    "INSERT INTO checkpoints (tenant, log, n, link, at, mac) VALUES ($1, 'access', $2, $3, $4, $5)
ON CONFLICT (tenant, log)"
);

pub(crate) fn decode_checkpoint(row: &dyn ColumnReader) -> Result<Checkpoint, StoreError> {
    Ok(Checkpoint {
        tenant: required(row, 0)?,
        sequence: required(row, 1)?,
        link: required(row, 2)?,
        at: required(row, 3)?,
        mac: required(row, 4)?,
    })
}

pub(crate) async fn list_records(
    client: &impl Statements,
    statements: &ChainStatements,
    tenant: TenantId,
    after: i64,
    records_max: usize,
) -> Result<Vec<LogRecord>, StoreError> {
    let record = |row: &dyn ColumnReader| decode_log_row(row).map(|it| it.to_record());
    let bounds = parameters![tenant, after, records_max];
    client.query(statements.list_records, &bounds, record).await
}

/// Records lie beside each other, so this is a few pages.
const PRUNE_BATCH: usize = 128;

/// Nobody else writes to this chain meanwhile, nor prunes it.
pub(crate) async fn prune_chain(
    client: &impl Execute,
    statements: &ChainStatements,
    prune: &PruneChain,
) -> Result<usize, StoreError> {
    let tenant = prune.tenant;
    let before =
        client.find(statements.find_checkpoint, &parameters![tenant], decode_checkpoint).await?;
    let records = list_records(client, statements, tenant, i64::MIN, PRUNE_BATCH).await?;
    let broken = |_| StoreError::Corrupt("a chain was altered, and is not pruned");
    let Some(created) = prune.checkpoint(before.as_ref(), &records).map_err(broken)? else {
        return Ok(0);
    };
    let put = parameters![tenant, created.sequence, &created.link, created.at, &created.mac];
    client.execute(statements.put_checkpoint, &put).await?;
    client.execute(statements.delete_pruned, &parameters![tenant, created.sequence]).await
}

/// What a log is verified against, and how many records there should be.
pub(crate) struct VerificationStart {
    pub(crate) verifier: Verifier,
    pub(crate) expected_records: u64,
}

/// Reads heads and checkpoints, and tells the verifier whose cannot be read.
pub(crate) async fn begin_verification(
    client: &impl Statements,
    statements: &ChainStatements,
    create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
) -> Result<VerificationStart, StoreError> {
    let found = |row: &dyn ColumnReader| Ok(decode_head(row).map_err(|_| decode_tenant_id(row)));
    let (heads, mut unreadable) =
        split_readable(client.query(statements.list_heads, &[], found).await?);
    let found =
        |row: &dyn ColumnReader| Ok(decode_checkpoint(row).map_err(|_| decode_tenant_id(row)));
    let (checkpoints, more) =
        split_readable(client.query(statements.list_checkpoints, &[], found).await?);
    unreadable.extend(more);
    let pruned: i64 = checkpoints.iter().fold(0, |sum, it| sum.saturating_add(it.sequence));
    let all = heads.iter().fold(0_i64, |sum, it| sum.saturating_add(it.sequence));
    let records = u64::try_from(all.saturating_sub(pruned)).unwrap_or_default();
    let mut verifier = create_verifier(ChainAnchors { heads, checkpoints });
    for tenant in unreadable {
        verifier.report_unreadable(tenant);
    }
    Ok(VerificationStart { verifier, expected_records: records })
}

/// Hands a record to the verifier, or tells whose cannot be read.
pub(crate) fn verify_row(verifier: &mut Verifier, row: &dyn ColumnReader) {
    match decode_log_row(row) {
        Ok(record) => verifier.verify_record(&record),
        Err(_) => verifier.report_unreadable(decode_tenant_id(row)),
    }
}

/// What can be read, and whose it is that cannot.
type SplitRows<T> = (Vec<T>, Vec<Option<TenantId>>);

fn split_readable<T>(rows: Vec<Result<T, Option<TenantId>>>) -> SplitRows<T> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Ok(it) => found.push(it),
            Err(tenant) => unreadable.push(tenant),
        }
    }
    (found, unreadable)
}

fn decode_tenant_id(row: &dyn ColumnReader) -> Option<TenantId> {
    required(row, 0).ok()
}
