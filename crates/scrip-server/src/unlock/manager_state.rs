//! What a key manager remembers between two commands.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use scrip_core::{
    keys::KeyRenewal,
    types::id::UnlockId,
    unlock::{UnlockRecord, VaultIdentity},
};
use scrip_seal::{ShareCollection, ShareLabel, VaultKey};

/// The results of the last checks, by method.
#[derive(Debug, Default)]
pub struct UnlockHealth(Mutex<BTreeMap<String, bool>>);

impl UnlockHealth {
    pub fn is_working(&self, method: &str) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(method).copied()
    }

    /// The checked methods, for metrics.
    pub fn results(&self) -> Vec<(String, bool)> {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.iter().map(|(method, is_working)| (method.clone(), *is_working)).collect()
    }

    /// Stores a result. Returns the one before.
    pub(super) fn set(&self, method: String, is_working: bool) -> Option<bool> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.insert(method, is_working)
    }

    /// Forgets methods that another node has removed.
    pub(super) fn retain(&self, is_present: impl Fn(&str) -> bool) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.retain(|method, _| is_present(method));
    }

    pub(crate) fn forget(&self, method: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(method);
    }
}

/// A rotation that waits until the holders of the new shares have entered them.
#[derive(Debug)]
pub(crate) struct PendingRotation {
    /// Only the command that started the rotation knows it.
    pub(super) id: String,
    /// The operator who started it.
    pub(super) uid: u32,
    pub(super) identity: VaultIdentity,
    pub(super) new_key: Arc<VaultKey>,
    pub(super) replaced: Vec<UnlockId>,
    pub(super) methods: Vec<UnlockRecord>,
    /// The row that the new shares open; `None` for a vault without shares.
    pub(super) shared: Option<UnlockRecord>,
    /// The other new keys after a compromise.
    pub(super) renewal: Option<KeyRenewal>,
    pub(super) started: Duration,
}

/// Shares that people entered to unseal the vault.
#[derive(Debug)]
pub(crate) struct EnteredShares {
    pub(super) set: ShareLabel,
    pub(super) collection: ShareCollection,
    pub(super) last_entry: Duration,
    /// For the audit log, which cannot be written before the vault is open.
    pub(super) records: Vec<String>,
}
