//! Verifies a log by reading all of it in one snapshot while other transactions write.
//!
//! Verification takes long and blocks no other transaction, but VACUUM cannot remove row versions
//! that its snapshot still sees.

use deadpool_postgres::Transaction;
use scrip_core::{
    audit::verify::{ChainAnchors, Verifier},
    types::StoreError,
};

use crate::{
    postgres::engine::error::store_error,
    shared::audit::log::{ChainStatements, VerificationStart, begin_verification, verify_row},
};

/// Records fetched per portal read. Progress is reported after each fetch.
const PORTAL_ROWS: i32 = 4096;

/// Verifies a log. The caller provides one read snapshot.
pub(crate) async fn verify_log(
    transaction: &Transaction<'_>,
    statements: &ChainStatements,
    create_verifier: impl FnOnce(ChainAnchors) -> Verifier,
    mut report_progress: impl FnMut(u64, u64),
) -> Result<Verifier, StoreError> {
    let start = begin_verification(transaction, statements, create_verifier).await?;
    let VerificationStart { mut verifier, expected_records } = start;
    let statement =
        transaction.prepare_cached(&statements.list_all_records).await.map_err(store_error)?;
    let portal = transaction.bind(&statement, &[]).await.map_err(store_error)?;
    let mut verified_records = 0_u64;
    loop {
        let rows = transaction.query_portal(&portal, PORTAL_ROWS).await.map_err(store_error)?;
        for row in &rows {
            verify_row(&mut verifier, row);
            verified_records = verified_records.saturating_add(1);
        }
        report_progress(verified_records, expected_records);
        if rows.is_empty() {
            return Ok(verifier);
        }
    }
}
