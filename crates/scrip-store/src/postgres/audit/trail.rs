//! A log read through, as it is at one instant, while others write: for verifying it.
//!
//! It takes its time, during which no row version that it could see is vacuumed away; nobody waits
//! for it.

use deadpool_postgres::Transaction;
use scrip_core::{
    audit::{
        Log,
        verify::{Ends, Verifier},
    },
    store::StoreError,
};

use crate::{
    postgres::{PostgresStore, engine::fault::fault},
    rules::audit::log::{WalkBeginning, begin_walk, verify_row},
};

/// Records that are asked for at once, and after which it is told how far it is.
const ROWS: i32 = 4096;

/// In a transaction that sees one instant.
pub(crate) async fn walk_log(
    transaction: &Transaction<'_>,
    log: Log,
    begin: impl FnOnce(Ends) -> Verifier,
    mut watch: impl FnMut(u64, u64),
) -> Result<Verifier, StoreError> {
    let statements = PostgresStore::chain_statements(log);
    let begun = begin_walk(transaction, statements, begin).await?;
    let WalkBeginning { mut verifier, records: all } = begun;
    let statement = transaction.prepare_cached(statements.list_all_records).await.map_err(fault)?;
    let records = transaction.bind(&statement, &[]).await.map_err(fault)?;
    let mut done = 0_u64;
    loop {
        let rows = transaction.query_portal(&records, ROWS).await.map_err(fault)?;
        for row in &rows {
            verify_row(&mut verifier, row);
            done = done.saturating_add(1);
        }
        watch(done, all);
        if rows.is_empty() {
            return Ok(verifier);
        }
    }
}
