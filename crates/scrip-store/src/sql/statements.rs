//! How shared code runs statements on either engine.
//!
//! Code that is the same for both engines is written once, as `async` functions over these traits.
//! PostgreSQL calls are awaited. SQLite runs on the calling thread, so its futures are ready when
//! first polled; [`run_sync_future`] polls them once.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use scrip_core::{
    audit::AuditRecord,
    events::NewDelivery,
    idempotency::IdempotencyRecord,
    types::{StoreError, id::TenantId},
};

use crate::sql::{column::ColumnReader, key_versions::KeyVersions, parameter::Parameter};

/// Runs statements that read.
pub(crate) trait Statements {
    /// Runs a statement and decodes all its rows.
    async fn query<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError>;

    /// Runs a statement that returns at most one row.
    async fn find<T>(
        &self,
        sql: &str,
        parameters: &[Parameter<'_>],
        decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.query(sql, parameters, decode).await?.into_iter().next())
    }
}

/// Runs statements that read and statements that change rows.
pub(crate) trait Execute: Statements {
    /// Returns the number of changed rows.
    async fn execute(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<usize, StoreError>;
}

/// A write transaction of the vault. It commits completely or not at all.
pub(crate) trait WriteTransaction: Execute {
    /// Appends a record to the audit log.
    async fn append_audit_record(
        &mut self,
        tenant: TenantId,
        audit: &AuditRecord,
        entity: &str,
        outcome: &'static str,
    ) -> Result<(), StoreError>;

    /// The versions of the tenant's sealing key. Fails if the tenant was deleted.
    async fn key_versions(&self, tenant: TenantId) -> Result<KeyVersions, StoreError>;

    /// Fails if the tenant was deleted: a request that began before the deletion must not write
    /// after it.
    async fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        self.key_versions(tenant).await.map(drop)
    }

    /// Inserts an idempotency record and returns whether it is new. `token_numbers` are the numbers
    /// of the tokens in the response.
    async fn try_insert_idempotency_record(
        &self,
        tenant: TenantId,
        record: &IdempotencyRecord,
        token_numbers: &[i64],
    ) -> Result<bool, StoreError>;

    /// Writes deliveries, with the change that raised their events.
    async fn insert_deliveries(&mut self, deliveries: &[NewDelivery]) -> Result<(), StoreError>;
}

/// Runs shared code on SQLite, where no future is ever pending.
pub(crate) fn run_sync_future<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::Corrupt("a SQLite future was not ready")),
    }
}
