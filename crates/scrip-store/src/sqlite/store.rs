//! The store, its readers and its transactions.

use std::{fs::File, path::PathBuf, sync::Arc, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::LogKind,
    types::{StoreError, StoreFuture, id::TenantId},
};

use crate::{
    claims::InFlightClaims,
    health::StoreHealth,
    policy_turns::PolicyTurns,
    shared::log::{ChainStatements, SQLITE_LOG},
    sql::{BatchDelete, Outcome, Parameter, parameters, run_sync_future},
    sqlite::{
        audit::read_log::SqliteReadLog,
        engine::{
            checkpoint::Checkpointer,
            readers::Readers,
            statement::{execute, with_snapshot},
            transaction::SqliteTransaction,
            writer::Writer,
        },
    },
};

/// Maximum number of retries of a write that waits while the write queue is full.
const BUSY_RETRIES_MAX: u32 = 200;
const BUSY_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The store of the embedded engine.
///
/// Fields are dropped in this order. The checkpointer and the readers stop before the writer, so
/// that the writer's connection closes last and removes the WAL. The lock is released after all of
/// them.
#[derive(Debug)]
pub struct SqliteStore {
    pub(super) _checkpointer: Option<Checkpointer>,
    pub(super) readers: Readers,
    pub(super) writer: Writer,
    pub(crate) read_log: SqliteReadLog,
    pub(crate) claims: InFlightClaims,
    pub(crate) policy_turns: PolicyTurns,
    pub(super) path: PathBuf,
    pub(super) health: Arc<StoreHealth>,
    pub(super) _lock: Option<File>,
}

impl SqliteStore {
    /// Reads the vault on the calling thread.
    pub(super) fn read<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.readers.read(work) })
    }

    /// Readers for the chains of a log; each log is a separate database.
    pub(crate) fn chains(&self, log: LogKind) -> &Readers {
        match log {
            LogKind::Audit => &self.readers,
            LogKind::Read => &self.read_log.readers,
        }
    }

    /// Readers for one tenant's chain.
    pub(crate) fn chain_reader(&self, log: LogKind, _: TenantId) -> &Readers {
        self.chains(log)
    }

    pub(crate) fn chain_statements(_: LogKind) -> &'static ChainStatements {
        &SQLITE_LOG
    }

    pub(super) fn log_writer(&self, log: LogKind) -> &Writer {
        match log {
            LogKind::Audit => &self.writer,
            LogKind::Read => &self.read_log.writer,
        }
    }

    /// Readers for one tenant; the statements name the tenant.
    pub(crate) fn for_tenant(&self, _: TenantId) -> &Readers {
        &self.readers
    }

    /// Readers for all tenants.
    pub(crate) fn for_all_tenants(&self) -> &Readers {
        &self.readers
    }

    /// Runs statements for one tenant in one snapshot of a log's database.
    pub(crate) async fn read_snapshot<T>(
        &self,
        log: LogKind,
        _: TenantId,
        read: impl AsyncFnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.chains(log).read(|it| with_snapshot(it, || run_sync_future(read(it))))
    }

    /// Writes for a tenant in the next group commit. The outcome decides whether the write is kept.
    pub(crate) async fn write<T: Outcome + Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_log(LogKind::Audit, tenant, work).await
    }

    /// Like [`SqliteStore::write`], in the database of a log.
    pub(crate) async fn write_log<T: Outcome + Send + 'static>(
        &self,
        log: LogKind,
        _: TenantId,
        work: impl AsyncFnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = move |it: &mut SqliteTransaction<'_>| run_sync_future(work(it));
        self.log_writer(log).write_if(work, T::should_commit).await
    }

    /// Writes to the vault. Waits while the write queue is full instead of failing.
    pub(crate) async fn write_waiting<T: Outcome + Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError>
        + Clone
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        for _ in 0..BUSY_RETRIES_MAX {
            match self.write(tenant, work.clone()).await {
                Err(StoreError::Busy) => tokio::time::sleep(BUSY_RETRY_PAUSE).await,
                result => return result,
            }
        }
        Err(StoreError::Busy)
    }

    /// Deletes one batch of the rows before the cutoff.
    pub(crate) async fn delete_batch(
        &self,
        log: LogKind,
        delete: &'static BatchDelete,
        cutoff: impl Into<Parameter<'static>> + Send + 'static,
    ) -> Result<usize, StoreError> {
        let delete_rows = move |it: &mut SqliteTransaction<'_>| {
            execute(it, delete.sqlite, &parameters![cutoff.into(), delete.sqlite_rows_max])
        };
        self.log_writer(log).write(delete_rows).await
    }
}
