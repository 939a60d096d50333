//! The policies of all tenants, and the keys of the vault.

pub(super) mod approvals;
pub(super) mod unlocks;

use scrip_seal::{KeySource, Sealed};

use crate::{
    Error,
    policy::{Directory, DirectoryRecords, SystemKeys},
    types::StoreFuture,
};

/// The policies of all tenants, and the keys of the vault. Each method is one transaction.
pub trait DirectoryStore: Send + Sync {
    /// Reads the whole directory in one transaction.
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords>;

    /// The version of the directory. Every change, on any node, increments it.
    fn directory_version(&self) -> StoreFuture<'_, i64>;

    /// Completes when another node announces a change, so that a server need not wait for its next
    /// check of the version. Without an announcement there may still be a change: an engine without
    /// notifications never completes this future.
    fn wait_for_directory_change(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Stores the keys of a new vault; fails when the vault already has keys.
    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()>;

    /// The wrapped key that signs deliveries to webhooks; `None` before the first one.
    fn find_webhook_signing_key(&self) -> StoreFuture<'_, Option<Sealed>>;

    /// Stores the wrapped key unless there is one; returns the stored key. Two nodes may make one
    /// at the same time. Fails if the vault key has another version than the one that wrapped it.
    fn insert_webhook_signing_key(&self, wrapped: Sealed) -> StoreFuture<'_, Sealed>;
}

/// Loads the stored directory and unwraps it. A wrong root key fails here, before the first
/// request. Keys that have not changed since `previous` are not unwrapped again.
///
/// Errors: the store or the key source is unavailable, or the keys belong to another vault.
pub async fn open_directory(
    store: &dyn DirectoryStore,
    source: &dyn KeySource,
    previous: Option<&Directory>,
) -> Result<Directory, Error> {
    Directory::open(store.load_directory().await?, source, previous)
}
