//! How shared code runs statements, whichever engine it runs on.
//!
//! Code that is the same for both engines is written once, as `async` functions over these traits.
//! PostgreSQL is waited for. The embedded engine answers on the calling thread, so its futures are
//! ready when they are first polled: [`run_ready`] runs a function to its end there.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use scrip_core::{
    audit::AuditRecord, id::TenantId, idempotency::IdempotencyRecord, store::StoreError,
};

use crate::sql::{column::ColumnReader, parameter::Parameter};

pub(crate) const NO_LAST_EVENT: StoreError = StoreError::Corrupt("the number of events is gone");

/// Where statements that read go.
pub(crate) trait Statements {
    /// Every row that a statement gives, decoded.
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError>;

    /// The row of a statement that gives one at most.
    async fn find<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.query(sql, parameters, decode).await?.into_iter().next())
    }
}

/// Where statements that change something go as well.
pub(crate) trait Execute: Statements {
    /// How many rows a statement changed.
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError>;
}

/// A transaction that writes to the vault. What it appends and inserts is kept as a whole, or not
/// at all.
pub(crate) trait WriteTransaction: Execute {
    /// A record of the audit log.
    async fn append_audit_record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError>;

    /// A request that began before its tenant was deleted must not write after.
    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError>;

    /// Whether a remembered answer is new. `tokens` are the numbers of the tokens that its parts
    /// show.
    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        record: &IdempotencyRecord,
        token_numbers: &[i64],
    ) -> Result<bool, StoreError>;

    /// The last of so many new numbers of events. They grow in the order of commits.
    async fn reserve_event_numbers(&self, count: usize) -> Result<i64, StoreError>;
}

/// Runs shared code on the embedded engine, where nothing is waited for.
pub(crate) fn run_ready<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(StoreError::Corrupt("the embedded engine waits for nothing")),
    }
}
