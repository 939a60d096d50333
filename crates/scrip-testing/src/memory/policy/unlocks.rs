//! The unlock methods of the vault.

use scrip_core::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{MethodRemoval, UnlockRemoval, VaultKeyRotation, WrappedKeys},
    policy::SystemKeys,
    store::UnlockStore,
    types::{StoreError, StoreFuture, id::UnlockId},
    unlock::{UnlockRecord, UnlockState, VaultIdentity, VaultUnlocks},
};
use scrip_seal::Sealed;

use crate::memory::{MemoryStore, state::MemoryStoreState};

impl MemoryStoreState {
    /// Fails for a key that another version of the vault key wrapped.
    pub(super) fn check_wrapping_version(&self, wrapped: &Sealed) -> Result<(), StoreError> {
        match wrapped.key_version() {
            Ok(version) if version != self.directory.unlocks.key_version() => {
                Err(StoreError::Corrupt("the vault key was rotated"))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn wrapped_keys(&self) -> Result<WrappedKeys, StoreError> {
        let SystemKeys { pepper, audit_key } = self
            .directory
            .system_keys
            .clone()
            .ok_or(StoreError::Corrupt("a vault key is missing"))?;
        Ok(WrappedKeys {
            pepper,
            audit_key,
            webhook_signing_key: self.webhook_signing_key.clone(),
            policies: self.directory.tenants.clone(),
            is_renewed: false,
        })
    }

    fn put_wrapped_keys(&mut self, keys: WrappedKeys) {
        let WrappedKeys { pepper, audit_key, .. } = keys;
        self.directory.system_keys = Some(SystemKeys { pepper, audit_key });
        self.webhook_signing_key = keys.webhook_signing_key;
        self.directory.tenants = keys.policies;
    }
}

impl UnlockStore for MemoryStore {
    fn insert_vault(
        &self,
        keys: SystemKeys,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            if it.directory.system_keys.is_some() {
                return Err(StoreError::Unavailable("the vault keys exist already".into()));
            }
            it.directory.system_keys = Some(keys);
            it.directory.unlocks =
                VaultUnlocks { identity: Some(identity), methods: vec![method], unreadable: 0 };
            Ok(())
        })
    }

    fn load_unlocks(&self) -> StoreFuture<'_, VaultUnlocks> {
        self.with(|it| it.directory.unlocks.clone())
    }

    fn adopt_vault(
        &self,
        identity: VaultIdentity,
        method: UnlockRecord,
    ) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |it| {
            if !it.directory.unlocks.is_legacy() {
                return ChangeOutcome::Stale;
            }
            it.directory.version += 1;
            it.directory.unlocks =
                VaultUnlocks { identity: Some(identity), methods: vec![method], unreadable: 0 };
            ChangeOutcome::Done
        })
    }

    fn insert_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |it| {
            let identity = it.directory.unlocks.identity;
            if identity.is_none_or(|it| it.key_version != method.key_version) {
                return ChangeOutcome::Stale;
            }
            it.directory.version += 1;
            it.directory.unlocks.methods.push(method);
            ChangeOutcome::Done
        })
    }

    fn activate_unlock(&self, method: UnlockRecord) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |it| {
            let is_method =
                |it: &&mut UnlockRecord| it.id == method.id && it.wrapped == method.wrapped;
            let Some(row) = it.directory.unlocks.methods.iter_mut().find(is_method) else {
                return ChangeOutcome::Stale;
            };
            row.state = method.state;
            row.mac = method.mac;
            it.directory.version += 1;
            ChangeOutcome::Done
        })
    }

    fn delete_unlock(&self, removal: MethodRemoval) -> StoreFuture<'_, UnlockRemoval> {
        let MethodRemoval { id, audit_key_before, audit_key_after } = removal;
        self.with(move |it| {
            let unlocks = &it.directory.unlocks;
            let Some(method) = unlocks.find(id) else { return UnlockRemoval::Missing };
            let is_active = method.state == UnlockState::Active;
            if is_active && !unlocks.active_methods().any(|it| it.id != id) {
                return UnlockRemoval::LastMethod;
            }
            match &mut it.directory.system_keys {
                Some(keys) if keys.audit_key == audit_key_before => {
                    keys.audit_key = audit_key_after;
                }
                Some(_) | None => return UnlockRemoval::Stale,
            }
            it.directory.unlocks.methods.retain(|it| it.id != id);
            it.directory.version += 1;
            UnlockRemoval::Removed
        })
    }

    fn save_unlock_check(&self, id: UnlockId, at: Timestamp) -> StoreFuture<'_, ()> {
        self.with(move |it| {
            let mut methods = it.directory.unlocks.methods.iter_mut();
            if let Some(method) = methods.find(|it| it.id == id) {
                method.checked_at = Some(at);
            }
        })
    }

    fn replace_audit_key(&self, before: Sealed, after: Sealed) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |it| match &mut it.directory.system_keys {
            Some(keys) if keys.audit_key == before => {
                keys.audit_key = after;
                it.directory.version += 1;
                ChangeOutcome::Done
            }
            Some(_) | None => ChangeOutcome::Stale,
        })
    }

    fn rotate_vault_key(&self, rotation: VaultKeyRotation) -> StoreFuture<'_, Result<(), Error>> {
        self.attempt_if(
            move |it| {
                let unlocks = &it.directory.unlocks;
                let mut present: Vec<_> = unlocks.methods.iter().map(|it| it.id).collect();
                let mut expected = rotation.replaced.clone();
                present.sort();
                expected.sort();
                let Some(identity) = unlocks.identity else { return Ok(Err(CHANGED)) };
                if present != expected || identity.key_version != rotation.from {
                    return Ok(Err(CHANGED));
                }
                match (rotation.rewrap)(it.wrapped_keys()?) {
                    Ok(keys) => it.put_wrapped_keys(keys),
                    Err(error) => return Ok(Err(error)),
                }
                it.directory.unlocks = VaultUnlocks {
                    identity: Some(VaultIdentity { key_version: rotation.to, ..identity }),
                    methods: rotation.methods,
                    unreadable: 0,
                };
                it.directory.version += 1;
                Ok(Ok(()))
            },
            Result::is_ok,
        )
    }
}

const CHANGED: Error = Error::Conflict {
    reason: "the vault key or its unlock methods have changed; nothing was rotated, try again",
};
