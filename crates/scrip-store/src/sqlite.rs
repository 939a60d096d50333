//! The embedded engine: one SQLite file, one writer, readers beside it.

mod answers;
mod checkpoint;
mod connection;
mod directory;
mod readers;
mod row;
mod tokens;
mod writer;

use std::{fs::File, path::Path};

use scrip_core::{
    application::{ApiKeyRecord, ApplicationRecord},
    caller::{Inquiry, Permit},
    directory::DirectoryRecords,
    id::TokenId,
    store::{
        AskedAnswer, Claimed, DeleteToken, Deleted, InsertToken, Inserted, Store, StoreError,
        StoreFuture, StoredToken, UpdateToken, Updated,
    },
    tenant::TenantRecord,
    time::Timestamp,
};
use scrip_seal::Sealed;

use crate::{
    claims::Claims,
    sqlite::{checkpoint::Checkpointer, readers::Readers, writer::Writer},
};

/// How readers see the pages of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Mapped: no copy, and the kernel forgets what it needs to.
    Mapped,
    /// Copied into a cache: for a process whose memory is locked, where a mapped page would stay
    /// for good.
    Copied,
}

/// Fields end in this order: the checkpointer and the readers before the writer, whose connection
/// is then the last and tidies the log away; the lock after all of them.
#[derive(Debug)]
pub struct SqliteStore {
    _checkpointer: Checkpointer,
    readers: Readers,
    writer: Writer,
    claims: Claims,
    _lock: File,
}

impl SqliteStore {
    /// Opens or creates the file, and brings its schema up to date.
    ///
    /// # Errors
    /// The file cannot be used, is open elsewhere, or was written by a newer version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Pages::Mapped)
    }

    /// The same, with a choice of how pages are read.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(path: &Path, pages: Pages) -> Result<Self, StoreError> {
        let lock = connection::lock(path)?;
        let writer = Writer::start(connection::open_writer(path)?)?;
        let readers = Readers::new(path, pages)?;
        let progress = std::sync::Arc::clone(&writer.progress);
        let checkpointer = Checkpointer::start(path, progress)?;
        let claims = Claims::default();
        Ok(Self { _checkpointer: checkpointer, readers, writer, claims, _lock: lock })
    }
}

/// The engine's own message may quote a value; its code never does.
fn fault(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error() {
        Some(error) => {
            StoreError::Unavailable(format!("SQLite error {}", error.extended_code).into())
        }
        None => StoreError::Corrupt("a row does not have the columns we wrote"),
    }
}

impl Store for SqliteStore {
    fn insert_token(&self, permit: Permit, insert: InsertToken) -> StoreFuture<'_, Inserted> {
        let tenant = permit.tenant().id;
        Box::pin(self.writer.write(move |it| tokens::insert_token(it, tenant, insert)))
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        Box::pin(async move {
            let tenant = inquiry.tenant().id;
            let found = self.readers.read(|it| tokens::find_token(it, tenant, id, now))?;
            Ok(found.map(|(_, token)| token))
        })
    }

    fn update_token(&self, permit: Permit, update: UpdateToken) -> StoreFuture<'_, Updated> {
        let tenant = permit.tenant().id;
        Box::pin(self.writer.write(move |it| tokens::update_token(it, tenant, update)))
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Deleted> {
        let tenant = permit.tenant().id;
        Box::pin(self.writer.write(move |it| tokens::delete_token(it, tenant, &delete)))
    }

    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        Box::pin(async move {
            let Some(claim) = self.claims.take(asked.digest) else { return Ok(Claimed::InFlight) };
            let found = self.readers.read(|it| answers::find_answer(it, &asked))?;
            Ok(found.map_or(Claimed::Claim(claim), Claimed::Answered))
        })
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.writer.write(move |it| answers::forget_answers(it, before)))
    }

    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move { self.readers.read(directory::load_directory) })
    }

    fn insert_pepper(&self, pepper: Sealed) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| directory::insert_pepper(it, &pepper)))
    }

    fn insert_tenant(&self, tenant: TenantRecord) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| directory::insert_tenant(it, &tenant)))
    }

    fn insert_application(
        &self,
        application: ApplicationRecord,
        api_key: ApiKeyRecord,
    ) -> StoreFuture<'_, ()> {
        let work = move |it: &_| directory::insert_application(it, &application, &api_key);
        Box::pin(self.writer.write(work))
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            if !self.writer.takes_work() {
                return Err(StoreError::Busy);
            }
            self.readers.read(|it| it.query_row("SELECT 1", [], |_| Ok(())).map_err(fault))
        })
    }
}
