//! Epoch keys in memory.

use std::collections::BTreeMap;

use crate::{Sealed, Secret, record::RecordKey};

#[derive(Default)]
pub(super) struct EpochKeyState {
    /// Keyed by the end of the epoch and the key version. One epoch has several keys only if nodes
    /// created them while they could not reach each other; all nodes then seal with the first.
    pub(super) keys: BTreeMap<(i64, u32), EpochKey>,
    /// The key file differs from `keys`.
    pub(super) unsaved: bool,
    /// Keys of epochs that ended at or before this time were destroyed here and are not loaded
    /// again.
    pub(super) destroyed_until_ms: Option<i64>,
    /// The name of the vault under which the keys were created. A compromise of the vault key
    /// changes it.
    pub(super) vault_id: Option<[u8; 32]>,
}

impl EpochKeyState {
    /// The key that seals, if there is one.
    pub(super) fn sealing_key(&self, end: i64) -> Option<&EpochKey> {
        self.keys_in_epoch(end).find(|it| !it.is_retired)
    }

    /// After a compromise, existing keys only open.
    pub(super) fn set_vault_id(&mut self, vault_id: [u8; 32]) {
        if self.vault_id.replace(vault_id).is_some_and(|it| it != vault_id) {
            self.keys.values_mut().for_each(|it| it.is_retired = true);
        }
    }

    pub(super) fn keys_in_epoch(&self, end: i64) -> impl Iterator<Item = &EpochKey> {
        self.keys.range((end, 0)..=(end, u32::MAX)).map(|(_, key)| key)
    }

    pub(super) fn is_destroyed(&self, end: i64) -> bool {
        self.destroyed_until_ms.is_some_and(|it| end <= it)
    }
}

/// The version is random, which distinguishes a lost key from an altered record.
pub(super) struct EpochKey {
    pub(super) record: RecordKey,
    pub(super) copy: KeyCopy,
    /// It opens, and does not seal.
    pub(super) is_retired: bool,
}

/// A second form of the key for other storage. Keys that exist only in memory have no copy.
pub(super) enum KeyCopy {
    None,
    /// For the file.
    Bytes(Secret),
    /// For the other nodes.
    Wrapped(Sealed),
}

impl EpochKey {
    pub(super) fn bytes(&self) -> Option<&Secret> {
        match &self.copy {
            KeyCopy::Bytes(bytes) => Some(bytes),
            KeyCopy::None | KeyCopy::Wrapped(_) => None,
        }
    }
}
