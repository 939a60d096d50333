//! The embedded engine: one SQLite file, one writer, readers beside it.

mod audit;
mod engine;
mod maintenance;
mod policy;
pub mod statement_list;
mod tokens;
pub mod transfer;

use std::{fs::File, path::PathBuf, time::Duration};

use rusqlite::Connection;
use scrip_core::{
    audit::LogKind,
    id::TenantId,
    store::{StoreError, StoreFuture},
};

use crate::{
    claims::InFlightClaims,
    shared::audit::log::{ChainStatements, SQLITE_LOG},
    sql::{DeleteSome, Outcome, Parameter, parameters, run_ready},
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

pub use crate::sqlite::{audit::verify, engine::connection::PageMode, maintenance::backup};

/// What a crowd of other writes may keep one waiting that must not be refused.
const BUSY_RETRIES_MAX: u32 = 200;
const BUSY_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Fields end in this order: the checkpointer and the readers before the writer, whose connection
/// is then the last and tidies the log away; the lock after all of them.
#[derive(Debug)]
pub struct SqliteStore {
    _checkpointer: Option<Checkpointer>,
    readers: Readers,
    writer: Writer,
    pub(crate) read_log: SqliteReadLog,
    pub(crate) claims: InFlightClaims,
    path: PathBuf,
    _lock: Option<File>,
}

impl SqliteStore {
    /// Reads the vault on the calling thread.
    fn read<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.readers.read(work) })
    }

    /// Single statements about the chains of a log, each of which has a database of its own.
    pub(crate) fn chains(&self, log: LogKind) -> &Readers {
        match log {
            LogKind::Audit => &self.readers,
            LogKind::Read => &self.read_log.readers,
        }
    }

    /// The same, about one of them.
    pub(crate) fn chain_reader(&self, log: LogKind, _: TenantId) -> &Readers {
        self.chains(log)
    }

    pub(crate) fn chain_statements(_: LogKind) -> &'static ChainStatements {
        &SQLITE_LOG
    }

    fn log_writer(&self, log: LogKind) -> &Writer {
        match log {
            LogKind::Audit => &self.writer,
            LogKind::Read => &self.read_log.writer,
        }
    }

    /// Single statements about one tenant, which they name.
    pub(crate) fn for_tenant(&self, _: TenantId) -> &Readers {
        &self.readers
    }

    /// Single statements about every tenant.
    pub(crate) fn for_all_tenants(&self) -> &Readers {
        &self.readers
    }

    /// Statements about one tenant, in the database of a log, which see it at one instant.
    pub(crate) async fn read_snapshot<T>(
        &self,
        log: LogKind,
        _: TenantId,
        read: impl AsyncFnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.chains(log).read(|it| with_snapshot(it, || run_ready(read(it))))
    }

    /// Writes for a tenant in the next commit, which keeps what the outcome says is kept.
    pub(crate) async fn write<T: Outcome + Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_log(LogKind::Audit, tenant, work).await
    }

    /// The same, in the database of a log.
    pub(crate) async fn write_log<T: Outcome + Send + 'static>(
        &self,
        log: LogKind,
        _: TenantId,
        work: impl AsyncFnOnce(&mut SqliteTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = move |it: &mut SqliteTransaction<'_>| run_ready(work(it));
        self.log_writer(log).write_if(work, T::is_kept).await
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
                done => return done,
            }
        }
        Err(StoreError::Busy)
    }

    pub(crate) async fn delete_some(
        &self,
        log: LogKind,
        delete: &'static DeleteSome,
        by: impl Into<Parameter<'static>> + Send + 'static,
    ) -> Result<usize, StoreError> {
        let some = move |it: &mut SqliteTransaction<'_>| {
            execute(it, delete.sqlite, &parameters![by.into(), delete.sqlite_rows_max])
        };
        self.log_writer(log).write(some).await
    }
}
