//! The chains of a log: their records, heads and checkpoints, read and pruned.
//!
//! The embedded engine has a database for each log, and PostgreSQL tables for both. So an engine
//! names its tables in statements of its own, and what is done with them is the same.

use scrip_core::{
    audit::{
        Chain, Checkpoint, Head, LogRecord, LogRow, PruneChain,
        verify::{Ends, Verifier},
    },
    id::TenantId,
    store::StoreError,
};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Execute, Parameter, Statements, optional, parameters, required};

/// An engine's statements about one chain. The first parameters of each are its key.
pub(crate) struct ChainStatements {
    /// Behind a number, so many at most.
    pub(crate) list_records: &'static str,
    /// From a number to before another, so many at most, the last first.
    pub(crate) walk_records: &'static str,
    /// The first number and the last.
    pub(crate) find_ends: &'static str,
    /// The earliest time and the latest of so many records from a number on.
    pub(crate) find_times: &'static str,
    pub(crate) find_checkpoint: &'static str,
    /// Number, link, time and mac.
    pub(crate) put_checkpoint: &'static str,
    /// Up to a number.
    pub(crate) delete_pruned: &'static str,
}

/// One chain, as an engine's statements name it.
pub(crate) struct ChainKey {
    pub(crate) statements: &'static ChainStatements,
    pub(crate) tenant: TenantId,
    /// Which log, where a table has both.
    pub(crate) log: Option<&'static str>,
}

impl ChainKey {
    /// The key, and what else a statement needs.
    pub(crate) fn with<'a, const N: usize>(&self, more: [Parameter<'a>; N]) -> Vec<Parameter<'a>> {
        let key = [Some(Parameter::from(self.tenant)), self.log.map(Parameter::from)];
        key.into_iter().flatten().chain(more).collect()
    }
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
pub(crate) fn log_row(row: &dyn ColumnReader) -> Result<LogRow<'_>, StoreError> {
    Ok(LogRow {
        tenant: required(row, 0)?,
        n: required(row, 1)?,
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
pub(crate) fn record_row<'a>(row: &'a LogRow<'_>) -> [Parameter<'a>; 14] {
    parameters![
        row.tenant,
        row.n,
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
pub(crate) fn lost_head(tenant: TenantId, n: i64, link: Option<Mac>) -> Head {
    tracing::error!(
        %tenant,
        "the head of a chain of records is missing or altered; run: scrip audit verify"
    );
    Head::lost(tenant, n, link)
}

/// In the order that [`head`] reads them.
macro_rules! head_columns {
    () => {
        "it.tenant, it.n, it.at, it.link, it.retention_seconds, it.mac"
    };
}
pub(crate) use head_columns;

pub(crate) fn head(row: &dyn ColumnReader) -> Result<Head, StoreError> {
    Ok(Head {
        tenant: required(row, 0)?,
        n: required(row, 1)?,
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
pub(crate) use checkpoint_columns;

pub(crate) fn checkpoint(row: &dyn ColumnReader) -> Result<Checkpoint, StoreError> {
    Ok(Checkpoint {
        tenant: required(row, 0)?,
        n: required(row, 1)?,
        link: required(row, 2)?,
        at: required(row, 3)?,
        mac: required(row, 4)?,
    })
}

/// Without those that cannot be read, which stand in nobody else's way: verifying finds them.
pub(crate) async fn list_heads(
    client: &impl Statements,
    sql: &str,
    of: &[Parameter<'_>],
) -> Result<Vec<Head>, StoreError> {
    let heads = client.query(sql, of, |row| Ok(head(row).ok())).await?;
    Ok(heads.into_iter().flatten().collect())
}

/// A head, and behind its columns when the oldest record of the chain was written.
pub(crate) async fn list_chains(
    client: &impl Statements,
    sql: &str,
    of: &[Parameter<'_>],
) -> Result<Vec<Chain>, StoreError> {
    let chain = |row: &dyn ColumnReader| {
        let Ok(head) = head(row) else { return Ok(None) };
        Ok(Some(Chain { head, oldest: optional(row, 6)? }))
    };
    Ok(client.query(sql, of, chain).await?.into_iter().flatten().collect())
}

pub(crate) async fn list_records(
    client: &impl Statements,
    chain: &ChainKey,
    after: i64,
    records_max: usize,
) -> Result<Vec<LogRecord>, StoreError> {
    let record = |row: &dyn ColumnReader| log_row(row).map(|it| it.to_record());
    let behind = chain.with(parameters![after, records_max]);
    client.query(chain.statements.list_records, &behind, record).await
}

pub(crate) async fn find_checkpoint(
    client: &impl Statements,
    chain: &ChainKey,
) -> Result<Option<Checkpoint>, StoreError> {
    client.find(chain.statements.find_checkpoint, &chain.with([]), checkpoint).await
}

/// Records lie beside each other, so this is a few pages.
const PRUNED_AT_ONCE: usize = 128;

/// Nobody else writes to this chain meanwhile, nor prunes it.
pub(crate) async fn prune_chain(
    client: &impl Execute,
    chain: &ChainKey,
    prune: &PruneChain,
) -> Result<usize, StoreError> {
    let before = find_checkpoint(client, chain).await?;
    let records = list_records(client, chain, i64::MIN, PRUNED_AT_ONCE).await?;
    let broken = |_| StoreError::Corrupt("a chain was altered, and is not pruned");
    let Some(made) = prune.checkpoint(before.as_ref(), &records).map_err(broken)? else {
        return Ok(0);
    };
    let put = chain.with(parameters![made.n, &made.link, made.at, &made.mac]);
    client.execute(chain.statements.put_checkpoint, &put).await?;
    client.execute(chain.statements.delete_pruned, &chain.with(parameters![made.n])).await
}

/// What a log is verified against, and how many records there should be.
pub(crate) struct WalkBeginning {
    pub(crate) verifier: Verifier,
    pub(crate) records: u64,
}

/// Reads heads and checkpoints, and tells the verifier whose cannot be read.
pub(crate) async fn begin_walk(
    client: &impl Statements,
    list_heads: &str,
    list_checkpoints: &str,
    of: &[Parameter<'_>],
    begin: impl FnOnce(Ends) -> Verifier,
) -> Result<WalkBeginning, StoreError> {
    let heads = client.query(list_heads, of, |row| Ok(head(row).map_err(|_| tenant(row)))).await?;
    let (heads, mut unreadable) = readable(heads);
    let found = |row: &dyn ColumnReader| Ok(checkpoint(row).map_err(|_| tenant(row)));
    let (checkpoints, more) = readable(client.query(list_checkpoints, of, found).await?);
    unreadable.extend(more);
    let pruned: i64 = checkpoints.iter().fold(0, |sum, it| sum.saturating_add(it.n));
    let all = heads.iter().fold(0_i64, |sum, it| sum.saturating_add(it.n));
    let records = u64::try_from(all.saturating_sub(pruned)).unwrap_or_default();
    let mut verifier = begin(Ends { heads, checkpoints });
    for tenant in unreadable {
        verifier.unreadable(tenant);
    }
    Ok(WalkBeginning { verifier, records })
}

/// Hands a record to the verifier, or tells whose cannot be read.
pub(crate) fn verify_row(verifier: &mut Verifier, row: &dyn ColumnReader) {
    match log_row(row) {
        Ok(record) => verifier.take(&record),
        Err(_) => verifier.unreadable(tenant(row)),
    }
}

/// What can be read, and whose it is that cannot.
type Readable<T> = (Vec<T>, Vec<Option<TenantId>>);

fn readable<T>(rows: Vec<Result<T, Option<TenantId>>>) -> Readable<T> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            Ok(it) => found.push(it),
            Err(tenant) => unreadable.push(tenant),
        }
    }
    (found, unreadable)
}

fn tenant(row: &dyn ColumnReader) -> Option<TenantId> {
    required(row, 0).ok()
}
