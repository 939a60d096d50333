//! The policy of every tenant, read whole, and the keys of the vault.

use crate::{
    policy::{DirectoryRecords, SystemKeys},
    store::StoreFuture,
};

/// The policy of every tenant, read whole, and the keys of the vault.
/// Each method is one transaction.
pub trait DirectoryStore: Send + Sync {
    /// All of it, as it was at one instant.
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords>;

    /// Grows whenever the directory changes, whoever changes it.
    fn directory_version(&self) -> StoreFuture<'_, i64>;

    /// Comes back when another node tells of such a change, so that nobody has to wait until the
    /// version is looked at the next time. That it stays out says nothing: an engine on which nobody
    /// can be told never comes back.
    fn wait_for_directory_change(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Keeps the keys of a new vault; refused when there are some.
    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()>;
}
