//! The policy of every tenant, read whole.

use rusqlite::Connection;
use scrip_core::{
    policy::{DirectoryRecords, SystemKeys},
    store::{DirectoryStore, StoreError, StoreFuture},
};

use crate::{
    shared::policy::{
        changes::insert_system_keys,
        directory::{self, SQLITE_KEYS, directory_version},
    },
    sql::run_ready,
    sqlite::{SqliteStore, engine::statement::with_snapshot},
};

/// What stands before a key in its row, so that the key lies on a page of its own: see the schema.
pub(crate) const KEY_PADDING: [u8; 1024] = [0; 1024];

/// As it is at one instant.
pub(crate) fn load_directory(connection: &Connection) -> Result<DirectoryRecords, StoreError> {
    with_snapshot(connection, || run_ready(directory::load_directory(connection, &SQLITE_KEYS)))
}

impl DirectoryStore for SqliteStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move { self.readers.read(load_directory) })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move { directory_version(&&self.readers).await })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| run_ready(insert_system_keys(it, &keys))))
    }
}
