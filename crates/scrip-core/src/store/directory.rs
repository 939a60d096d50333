//! The policies of all tenants; the keys of the vault and its unlock methods; dual control.

use scrip_seal::{KeySource, Sealed};

use crate::{
    Error, Timestamp,
    approval::{ApprovalChange, StoredApprovals},
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation},
    policy::{Directory, DirectoryRecords, SystemKeys},
    types::{StoreFuture, id::UnlockId},
    unlock::{UnlockRecord, VaultIdentity, VaultUnlocks},
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

/// The state of dual control and its requests. Each method is one transaction.
pub trait ApprovalStore: Send + Sync {
    fn load_approvals(&self) -> StoreFuture<'_, StoredApprovals>;

    /// Writes the state and the changed requests. [`ChangeOutcome::Stale`] if the state is not the
    /// expected one, so that an approval is used once.
    fn change_approvals(&self, change: ApprovalChange) -> StoreFuture<'_, ChangeOutcome>;
}

/// The unlock methods of the vault. Each method is one transaction.
pub trait UnlockStore: Send + Sync {
    /// Stores the keys of a new vault and its unlock method; fails when the vault already has keys.
    fn insert_vault(
        &self,
        keys: SystemKeys,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ()>;

    fn load_unlocks(&self) -> StoreFuture<'_, VaultUnlocks>;

    /// Gives an identity and its first unlock method to a vault that has none.
    /// [`ChangeOutcome::Stale`] if it has one.
    fn adopt_vault(
        &self,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ChangeOutcome>;

    /// Adds an unlock method. [`ChangeOutcome::Stale`] if the vault key has another version.
    fn insert_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome>;

    /// Makes a pending method active. [`ChangeOutcome::Stale`] if it does not exist, or has another
    /// wrapped key.
    fn activate_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome>;

    /// Removes an unlock method and overwrites its row. Never removes the last active one.
    fn delete_unlock(&self, removal: MethodRemoval) -> StoreFuture<'_, UnlockRemoval>;

    /// Stores when the method last returned the vault key.
    fn save_unlock_check(&self, id: UnlockId, at: Timestamp) -> StoreFuture<'_, ()>;

    /// Replaces the stored form of the audit key. [`ChangeOutcome::Stale`] if it is not `before`.
    fn replace_audit_key(&self, before: Sealed, after: Sealed) -> StoreFuture<'_, ChangeOutcome>;

    /// Replaces the vault key: all wrapped keys and all unlock methods, and overwrites the old rows.
    /// [`Error::Conflict`] if the version or the methods have changed.
    fn rotate_vault_key(&self, rotation: VaultKeyRotation) -> StoreFuture<'_, Result<(), Error>>;
}
