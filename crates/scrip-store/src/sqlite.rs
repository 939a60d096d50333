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
    audit::Log,
    id::TenantId,
    store::{StoreError, StoreFuture},
};

use crate::{
    claims::Claims,
    rules::audit::log::{ChainStatements, SQLITE_LOG},
    sql::{DeleteSome, Outcome, Parameter, parameters, run_ready},
    sqlite::{
        audit::access_log::AccessLog,
        engine::{
            checkpoint::Checkpointer,
            readers::Readers,
            statement::{at_one_instant, execute},
            transaction::Transaction,
            writer::Writer,
        },
    },
};

pub use crate::sqlite::{audit::trail, engine::connection::Pages, maintenance::backup};

/// What a crowd of other writes may keep one waiting that must not be refused.
const TURNS_MAX: u32 = 200;
const TURN: Duration = Duration::from_millis(50);

/// Fields end in this order: the checkpointer and the readers before the writer, whose connection
/// is then the last and tidies the log away; the lock after all of them.
#[derive(Debug)]
pub struct SqliteStore {
    _checkpointer: Option<Checkpointer>,
    readers: Readers,
    writer: Writer,
    pub(crate) access: AccessLog,
    pub(crate) claims: Claims,
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
    pub(crate) fn chains(&self, log: Log) -> &Readers {
        match log {
            Log::Audit => &self.readers,
            Log::Access => &self.access.readers,
        }
    }

    /// The same, about one of them.
    pub(crate) fn chain(&self, log: Log, _: TenantId) -> &Readers {
        self.chains(log)
    }

    pub(crate) fn chain_statements(_: Log) -> &'static ChainStatements {
        &SQLITE_LOG
    }

    fn log_writer(&self, log: Log) -> &Writer {
        match log {
            Log::Audit => &self.writer,
            Log::Access => &self.access.writer,
        }
    }

    /// Single statements about one tenant, which they name.
    pub(crate) fn of(&self, _: TenantId) -> &Readers {
        &self.readers
    }

    /// Single statements about every tenant.
    pub(crate) fn of_every_tenant(&self) -> &Readers {
        &self.readers
    }

    /// Statements about one tenant, in the database of a log, which see it at one instant.
    pub(crate) async fn at_one_instant<T>(
        &self,
        log: Log,
        _: TenantId,
        read: impl AsyncFnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.chains(log).read(|it| at_one_instant(it, || run_ready(read(it))))
    }

    /// Writes for a tenant in the next commit, which keeps what the outcome says is kept.
    pub(crate) async fn write<T: Outcome + Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_log(Log::Audit, tenant, work).await
    }

    /// The same, in the database of a log.
    pub(crate) async fn write_log<T: Outcome + Send + 'static>(
        &self,
        log: Log,
        _: TenantId,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = move |it: &mut Transaction<'_>| run_ready(work(it));
        self.log_writer(log).write_if(work, T::is_kept).await
    }

    /// Writes to the vault. Waits while the write queue is full instead of failing.
    pub(crate) async fn write_waiting<T: Outcome + Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        for _ in 0..TURNS_MAX {
            match self.write(tenant, work.clone()).await {
                Err(StoreError::Busy) => tokio::time::sleep(TURN).await,
                done => return done,
            }
        }
        Err(StoreError::Busy)
    }

    pub(crate) async fn delete_some(
        &self,
        log: Log,
        delete: &'static DeleteSome,
        by: impl Into<Parameter<'static>> + Send + 'static,
    ) -> Result<usize, StoreError> {
        let some = move |it: &mut Transaction<'_>| {
            execute(it, delete.sqlite, &parameters![by.into(), delete.sqlite_rows_max])
        };
        self.log_writer(log).write(some).await
    }
}
