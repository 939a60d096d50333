//! A log read through, as it is at one instant, while others write: for verifying it.
//!
//! It takes its time, during which no row version that it could see is vacuumed away; nobody waits
//! for it.

use deadpool_postgres::Transaction;
use scrip_core::{
    audit::{
        chain::{Checkpoint, Log},
        verify::{Ends, Verifier},
    },
    id::TenantId,
    store::StoreError,
};
use scrip_seal::Mac;
use tokio_postgres::Row;

use crate::postgres::{
    chain::head,
    records::{LIST_HEADS, log_row},
    row::{array, column, time},
    statement::{fault, query},
};

/// Records that are asked for at once, and after which it is told how far it is.
const ROWS: i32 = 4096;

const LIST_CHECKPOINTS: &str = "
-- list_checkpoints
SELECT tenant, n, link, at, mac FROM checkpoints WHERE log = $1 ORDER BY tenant";

const LIST_ALL_RECORDS: &str = "
-- list_all_records
SELECT tenant, n, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key,
    os_user, repeats, link
FROM records WHERE log = $1 ORDER BY tenant, n";

/// In a transaction that sees one instant.
pub(super) async fn walk_log(
    transaction: &Transaction<'_>,
    log: Log,
    begin: impl FnOnce(Ends) -> Verifier,
    mut watch: impl FnMut(u64, u64),
) -> Result<Verifier, StoreError> {
    let of = log.as_str();
    let rows = query(transaction, LIST_HEADS, &[&of]).await?;
    let (heads, bad_heads) = readable(&rows, 5, |row| head(row, 5, 0));
    let rows = query(transaction, LIST_CHECKPOINTS, &[&of]).await?;
    let (checkpoints, bad_checkpoints) = readable(&rows, 0, checkpoint);
    let pruned: i64 = checkpoints.iter().fold(0, |sum, it| sum.saturating_add(it.n));
    let all = heads.iter().fold(0_i64, |sum, it| sum.saturating_add(it.n));
    let all = u64::try_from(all.saturating_sub(pruned)).unwrap_or_default();
    let mut verifier = begin(Ends { heads, checkpoints });
    for tenant in bad_heads.into_iter().chain(bad_checkpoints) {
        verifier.unreadable(tenant);
    }
    let statement = transaction.prepare_cached(LIST_ALL_RECORDS).await.map_err(fault)?;
    let records = transaction.bind(&statement, &[&of]).await.map_err(fault)?;
    let mut done = 0_u64;
    loop {
        let rows = transaction.query_portal(&records, ROWS).await.map_err(fault)?;
        for row in &rows {
            match log_row(row) {
                Ok(record) => verifier.take(&record),
                Err(_) => verifier.unreadable(tenant(row, 0)),
            }
            done = done.saturating_add(1);
        }
        watch(done, all);
        if rows.is_empty() {
            return Ok(verifier);
        }
    }
}

fn checkpoint(row: &Row) -> Result<Checkpoint, StoreError> {
    Ok(Checkpoint {
        tenant: TenantId(column(row, 0)?),
        n: column(row, 1)?,
        link: Mac(array(row, 2)?),
        at: time(row, 3)?,
        mac: Mac(array(row, 4)?),
    })
}

/// What can be read, and whose it is that cannot.
type Readable<T> = (Vec<T>, Vec<Option<TenantId>>);

fn readable<T>(
    rows: &[Row],
    tenant_at: usize,
    parse: impl Fn(&Row) -> Result<T, StoreError>,
) -> Readable<T> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for row in rows {
        match parse(row) {
            Ok(it) => found.push(it),
            Err(_) => unreadable.push(tenant(row, tenant_at)),
        }
    }
    (found, unreadable)
}

fn tenant(row: &Row, at: usize) -> Option<TenantId> {
    column(row, at).ok().map(TenantId)
}
