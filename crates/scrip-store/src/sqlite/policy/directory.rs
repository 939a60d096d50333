//! Reads the policy of every tenant.

use rusqlite::Connection;
use scrip_core::{
    policy::{DirectoryRecords, SystemKeys},
    store::DirectoryStore,
    types::{StoreError, StoreFuture},
};
use scrip_seal::Sealed;

use crate::{
    shared::policy::{
        changes::{insert_system_keys, insert_webhook_signing_key},
        directory::{self, SQLITE_KEYS, directory_version, find_webhook_signing_key},
    },
    sql::run_sync_future,
    sqlite::{
        SqliteStore,
        engine::{readers::run_blocking, statement::with_snapshot, transaction::SqliteTransaction},
    },
};

/// Padding before a key in its row, so that each key is on a separate page; see the schema.
pub(crate) const KEY_PADDING: [u8; 1024] = [0; 1024];

/// Loads the policy of all tenants in one snapshot.
pub(crate) fn load_directory(connection: &Connection) -> Result<DirectoryRecords, StoreError> {
    with_snapshot(connection, || {
        run_sync_future(directory::load_directory(connection, &SQLITE_KEYS))
    })
}

impl DirectoryStore for SqliteStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        Box::pin(async move { run_blocking(|| self.readers.read(load_directory)) })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        Box::pin(async move { directory_version(&&self.readers).await })
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        Box::pin(self.writer.write(move |it| run_sync_future(insert_system_keys(it, &keys))))
    }

    fn find_webhook_signing_key(&self) -> StoreFuture<'_, Option<Sealed>> {
        Box::pin(async move { find_webhook_signing_key(&&self.readers).await })
    }

    fn insert_webhook_signing_key(&self, wrapped: Sealed) -> StoreFuture<'_, Sealed> {
        let insert = move |it: &mut SqliteTransaction<'_>| {
            run_sync_future(insert_webhook_signing_key(it, &wrapped))
        };
        Box::pin(self.writer.write(insert))
    }
}
