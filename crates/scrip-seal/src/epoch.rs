//! Epoch keys: short-lived keys that seal CVCs and nothing else.
//!
//! An epoch key is random, not derived, and is never stored in a database or a backup. After it is
//! destroyed, no database copy, log page or root key can recover the values that it sealed. If an
//! epoch key is lost early, CVCs that are less than an hour old become unreadable; card numbers are
//! not affected.

mod key_file;
mod shared_storage;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thiserror::Error;
use zeroize::Zeroizing;

pub use crate::epoch::shared_storage::{
    EpochKeyError, KeyExchange, KeyExchangeFuture, KeyOffer, KeyPresence, SharedEpoch,
    WrappedEpochKey,
};
use crate::{
    OpenError, Place, Sealed, Secret,
    epoch::{key_file::KeyFile, shared_storage::SharedStorage},
    random::random_bytes,
    record::RecordKey,
};

/// The keys of the epochs that have not ended.
pub struct EpochKeys {
    epoch_ms: i64,
    storage: KeyStorage,
    state: Mutex<EpochKeyState>,
}

/// Where the keys are stored in addition to this process's memory.
enum KeyStorage {
    /// Nowhere else: the keys are lost when the process ends.
    Memory,
    /// In a file that does not survive a reboot. A hardware key store would be another variant.
    File(KeyFile),
    /// In a key exchange, wrapped, for the other nodes.
    Shared(SharedStorage),
}

#[derive(Default)]
struct EpochKeyState {
    /// Keyed by the end of the epoch and the key version. One epoch has several keys only if nodes
    /// created them while they could not reach each other; all nodes then seal with the first.
    keys: BTreeMap<(i64, u32), EpochKey>,
    /// The key file differs from `keys`.
    unsaved: bool,
    /// Keys of epochs that ended at or before this time were destroyed here and are not loaded
    /// again.
    destroyed_until_ms: Option<i64>,
    /// The name of the vault under which the keys were created. A compromise of the vault key
    /// changes it.
    vault_id: Option<[u8; 32]>,
}

impl EpochKeyState {
    /// The key that seals, if there is one.
    fn sealing_key(&self, end: i64) -> Option<&EpochKey> {
        self.keys_in_epoch(end).find(|it| !it.is_retired)
    }

    /// After a compromise, existing keys only open.
    fn set_vault_id(&mut self, vault_id: [u8; 32]) {
        if self.vault_id.replace(vault_id).is_some_and(|it| it != vault_id) {
            self.keys.values_mut().for_each(|it| it.is_retired = true);
        }
    }

    fn keys_in_epoch(&self, end: i64) -> impl Iterator<Item = &EpochKey> {
        self.keys.range((end, 0)..=(end, u32::MAX)).map(|(_, key)| key)
    }

    fn is_destroyed(&self, end: i64) -> bool {
        self.destroyed_until_ms.is_some_and(|it| end <= it)
    }
}

/// The version is random, which distinguishes a lost key from an altered record.
struct EpochKey {
    record: RecordKey,
    copy: KeyCopy,
    /// It opens, and does not seal.
    is_retired: bool,
}

/// A second form of the key for other storage. Keys that exist only in memory have no copy.
enum KeyCopy {
    None,
    /// For the file.
    Bytes(Secret),
    /// For the other nodes.
    Wrapped(Sealed),
}

impl EpochKey {
    fn new(version: u32, bytes: Secret, storage: &KeyStorage) -> Self {
        let record = RecordKey::new(version, &bytes, "epoch");
        let copy = match storage {
            KeyStorage::Memory | KeyStorage::Shared(_) => KeyCopy::None,
            KeyStorage::File(_) => KeyCopy::Bytes(bytes),
        };
        Self { record, copy, is_retired: false }
    }

    fn bytes(&self) -> Option<&Secret> {
        match &self.copy {
            KeyCopy::Bytes(bytes) => Some(bytes),
            KeyCopy::None | KeyCopy::Wrapped(_) => None,
        }
    }
}

/// The result of opening a value that an epoch key sealed.
#[derive(Debug)]
pub enum OpenedValue {
    Open(Secret),
    /// The key was destroyed, or this process never had it.
    KeyDestroyed,
    /// Another node may have the key: see [`EpochKeys::load_opening_key`].
    KeyNotLoaded,
}

/// Why the epoch key file cannot be used.
#[derive(Debug, Error)]
pub enum EpochFileError {
    #[error("the epoch key file is damaged; remove it (stored CVCs become unreadable)")]
    Damaged,
    #[error("the epoch key file is readable by others or is not a regular file; remove it")]
    Exposed,
    #[error("the epoch key file is locked by another process")]
    InUse,
    #[error("cannot use the epoch key file: {0}")]
    Io(#[from] io::Error),
}

impl EpochKeys {
    #[must_use]
    pub fn in_memory(epoch: Duration) -> Self {
        Self::with_storage(epoch, KeyStorage::Memory)
    }

    /// Loads the keys that an earlier process saved in this file, and saves new keys there. The
    /// caller ensures that the file is not on a persistent disk.
    ///
    /// # Errors
    /// The file is damaged, locked, readable by others or not writable.
    pub fn in_file(epoch: Duration, path: &Path) -> Result<Self, EpochFileError> {
        let file = KeyFile::lock(path)?;
        let entries = file.load()?;
        let keys = Self::with_storage(epoch, KeyStorage::File(file));
        {
            let mut state = keys.state();
            for (ends_ms, version, bytes) in entries {
                let key = EpochKey::new(version, bytes, &keys.storage);
                state.keys.insert((ends_ms, version), key);
            }
            state.unsaved = true;
            keys.save(&mut state)?;
        }
        Ok(keys)
    }

    /// Shares keys between the nodes of one vault. Sealing fails before [`EpochKeys::unlock`].
    #[must_use]
    pub fn shared(epoch: Duration, exchange: Arc<dyn KeyExchange>) -> Self {
        Self::with_storage(epoch, KeyStorage::Shared(SharedStorage::new(exchange)))
    }

    fn with_storage(epoch: Duration, storage: KeyStorage) -> Self {
        let epoch_ms = i64::try_from(epoch.as_millis()).unwrap_or(i64::MAX).max(1);
        Self { epoch_ms, storage, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, EpochKeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals a value so that it cannot be opened after the epoch of `ends_ms` has ended.
    ///
    /// # Errors
    /// The keys are shared and the key of this epoch is not loaded; see
    /// [`EpochKeys::load_sealing_key`].
    pub fn seal(
        &self,
        place: &Place,
        plaintext: &Secret,
        ends_ms: i64,
    ) -> Result<Sealed, EpochKeyError> {
        let state = &mut *self.state();
        let end = self.epoch_end(ends_ms);
        if let Some(key) = state.sealing_key(end) {
            return Ok(key.record.seal(place, plaintext.expose()));
        }
        if matches!(self.storage, KeyStorage::Shared(_)) {
            return Err(EpochKeyError::NotLoaded);
        }
        let version = u32::from_be_bytes(random_bytes());
        let bytes = Secret::new(Zeroizing::new(random_bytes::<32>()).to_vec());
        let key = EpochKey::new(version, bytes, &self.storage);
        let sealed = key.record.seal(place, plaintext.expose());
        state.keys.insert((end, version), key);
        state.unsaved = true;
        // If saving fails, a restart loses these CVCs. `destroy_expired` retries and reports the
        // error.
        drop(self.save(state));
        Ok(sealed)
    }

    /// Opens a value that was sealed with the same `ends_ms`.
    ///
    /// # Errors
    /// The bytes are damaged or belong to another place.
    pub fn open(
        &self,
        place: &Place,
        sealed: &Sealed,
        ends_ms: i64,
    ) -> Result<OpenedValue, OpenError> {
        let version = sealed.key_version()?;
        let state = self.state();
        if let Some(key) = state.keys.values().find(|it| it.record.version == version) {
            return Ok(OpenedValue::Open(key.record.open(place, sealed)?));
        }
        let is_shared = matches!(self.storage, KeyStorage::Shared(_));
        let is_destroyed = state.is_destroyed(self.epoch_end(ends_ms));
        Ok(if is_shared && !is_destroyed {
            OpenedValue::KeyNotLoaded
        } else {
            OpenedValue::KeyDestroyed
        })
    }

    /// Destroys the keys of all ended epochs in memory and in the key file.
    ///
    /// # Errors
    /// The file could not be rewritten. If it is writable at all, its old content was overwritten,
    /// so the destroyed keys are not in it. The remaining keys then exist only in memory and are
    /// lost when the process ends.
    pub fn destroy_expired(&self, now_ms: i64) -> Result<(), EpochFileError> {
        let state = &mut *self.state();
        let count_before = state.keys.len();
        state.keys.retain(|(end, _), _| *end > now_ms);
        state.destroyed_until_ms = state.destroyed_until_ms.max(Some(now_ms));
        state.unsaved |= state.keys.len() < count_before;
        self.save(state)
    }

    /// When the next key expires.
    #[must_use]
    pub fn next_expiry_ms(&self) -> Option<i64> {
        self.state().keys.keys().next().map(|(end, _)| *end)
    }

    /// The number of keys in memory.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.state().keys.len()
    }

    fn save(&self, state: &mut EpochKeyState) -> Result<(), EpochFileError> {
        if let (true, KeyStorage::File(file)) = (state.unsaved, &self.storage) {
            let keys = state.keys.iter();
            file.save(keys.filter_map(|((end, version), it)| Some((*end, *version, it.bytes()?))))?;
        }
        state.unsaved = false;
        Ok(())
    }

    /// Epochs follow each other without gaps. A value that ends exactly when an epoch ends belongs
    /// to the next epoch.
    fn epoch_end(&self, ends_ms: i64) -> i64 {
        let epoch = ends_ms.div_euclid(self.epoch_ms).saturating_add(1);
        epoch.saturating_mul(self.epoch_ms)
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochKeys")
    }
}

#[cfg(test)]
mod tests;
