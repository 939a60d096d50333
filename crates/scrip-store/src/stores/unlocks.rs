//! The unlock methods of the vault.

use scrip_core::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation},
    policy::SystemKeys,
    store::UnlockStore,
    types::{
        StoreFuture,
        id::{TenantId, UnlockId},
    },
    unlock::{UnlockRecord, VaultIdentity, VaultUnlocks},
};

use scrip_seal::Sealed;

use crate::{
    shared::policy::{
        unlock_rows::load_unlocks,
        unlocks::{
            activate_unlock, adopt_vault, delete_unlock, insert_unlock, insert_vault,
            replace_audit_key, rotate_vault_key, save_unlock_check,
        },
    },
    stores::both_engines::for_both_engines,
};

for_both_engines! {
impl UnlockStore {
    fn insert_vault(
        &self,
        keys: SystemKeys,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ()> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            insert_vault(it, &keys, identity, &method).await
        }))
    }

    fn load_unlocks(&self) -> StoreFuture<'_, VaultUnlocks> {
        Box::pin(async move { load_unlocks(&self.for_all_tenants(), Self::KEYS.list_unlocks).await })
    }

    fn adopt_vault(
        &self,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            adopt_vault(it, identity, &method).await
        }))
    }

    fn insert_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| insert_unlock(it, &method).await))
    }

    fn activate_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| activate_unlock(it, &method).await))
    }

    fn delete_unlock(&self, removal: MethodRemoval) -> StoreFuture<'_, UnlockRemoval> {
        let delete =
            self.write(TenantId::VAULT, async move |it| delete_unlock(it, &removal).await);
        Box::pin(async move {
            let removal = delete.await?;
            self.erase_log().await?;
            Ok(removal)
        })
    }

    fn save_unlock_check(&self, id: UnlockId, at: Timestamp) -> StoreFuture<'_, ()> {
        Box::pin(self.write(TenantId::VAULT, async move |it| save_unlock_check(it, id, at).await))
    }

    fn replace_audit_key(&self, before: Sealed, after: Sealed) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            replace_audit_key(it, &before, &after).await
        }))
    }

    fn rotate_vault_key(&self, rotation: VaultKeyRotation) -> StoreFuture<'_, Result<(), Error>> {
        let rotate = self.write(TenantId::VAULT, async move |it| {
            rotate_vault_key(it, rotation).await
        });
        Box::pin(async move {
            let result = rotate.await?;
            self.erase_log().await?;
            Ok(result)
        })
    }
}
}
