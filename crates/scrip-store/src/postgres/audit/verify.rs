//! A log read through, as it is at one instant, while others write: for verifying it.
//!
//! It takes its time, during which no row version that it could see is vacuumed away; nobody waits
//! for it.

use deadpool_postgres::Transaction;
use scrip_core::{
    audit::{
        LogKind,
        verify::{ChainAnchors, Verifier},
    },
    store::StoreError,
};

use crate::{
    postgres::{PostgresStore, engine::error::store_error},
    shared::audit::log::{VerificationStart, begin_verification, verify_row},
};

/// Records that are asked for at once, and after which it is told how far it is.
const PORTAL_ROWS: i32 = 4096;

/// In a transaction that sees one instant.
pub(crate) async fn verify_log(
    transaction: &Transaction<'_>,
    log: LogKind,
    create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
    mut report_progress: impl FnMut(u64, u64),
) -> Result<Verifier, StoreError> {
    let statements = PostgresStore::chain_statements(log);
    let begun = begin_verification(transaction, statements, create_verifier).await?;
    let VerificationStart { mut verifier, expected_records: all } = begun;
    let statement =
        transaction.prepare_cached(statements.list_all_records).await.map_err(store_error)?;
    let records = transaction.bind(&statement, &[]).await.map_err(store_error)?;
    let mut done = 0_u64;
    loop {
        let rows = transaction.query_portal(&records, PORTAL_ROWS).await.map_err(store_error)?;
        for row in &rows {
            verify_row(&mut verifier, row);
            done = done.saturating_add(1);
        }
        report_progress(done, all);
        if rows.is_empty() {
            return Ok(verifier);
        }
    }
}
