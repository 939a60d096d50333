//! The embedded engine: one SQLite file, one writer, readers beside it.

mod audit;
mod engine;
mod maintenance;
mod policy;
mod sessions;
pub mod statement_list;
mod tokens;
pub mod transfer;

use std::{fs::File, path::PathBuf};

use rusqlite::Connection;
use scrip_core::store::{StoreError, StoreFuture};

use crate::{
    claims::Claims,
    sqlite::{
        audit::access_log::AccessLog,
        engine::{
            checkpoint::Checkpointer, readers::Readers, transaction::Transaction, writer::Writer,
        },
    },
};

pub use crate::sqlite::{audit::trail, engine::connection::Pages, maintenance::backup};

/// Fields end in this order: the checkpointer and the readers before the writer, whose connection
/// is then the last and tidies the log away; the lock after all of them.
#[derive(Debug)]
pub struct SqliteStore {
    _checkpointer: Option<Checkpointer>,
    readers: Readers,
    writer: Writer,
    access: AccessLog,
    claims: Claims,
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

    /// Writes to the vault in the next commit.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(self.writer.write(work))
    }
}
