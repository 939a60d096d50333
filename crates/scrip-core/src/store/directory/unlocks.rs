//! The unlock methods of the vault, and the rotation of the vault key.

use scrip_seal::Sealed;

use crate::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation},
    policy::SystemKeys,
    types::{StoreFuture, id::UnlockId},
    unlock::{UnlockRecord, VaultIdentity, VaultUnlocks},
};

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
