//! Epoch keys: short-lived keys that seal CVCs and nothing else.
//!
//! An epoch key is random, not derived, and is never stored in a database or a backup. After it is
//! destroyed, no database copy, log page or root key can recover the values that it sealed. If an
//! epoch key is lost early, CVCs that are less than an hour old become unreadable; card numbers are
//! not affected.

mod epoch_key;
mod key_file;
mod shared_keys;
mod shared_storage;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use zeroize::Zeroizing;

pub use crate::epoch::{
    key_file::EpochFileError,
    shared_storage::{
        EpochKeyError, KeyExchange, KeyExchangeFuture, KeyOffer, KeyPresence, SharedEpoch,
        WrappedEpochKey,
    },
};
use crate::{
    OpenError, Place, Sealed, Secret,
    epoch::{
        epoch_key::{EpochKey, EpochKeyState, KeyCopy},
        key_file::KeyFile,
        shared_storage::SharedStorage,
    },
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

impl KeyStorage {
    fn build_key(&self, version: u32, bytes: Secret) -> EpochKey {
        let record = RecordKey::new(version, &bytes, "epoch");
        let copy = match self {
            Self::Memory | Self::Shared(_) => KeyCopy::None,
            Self::File(_) => KeyCopy::Bytes(bytes),
        };
        EpochKey { record, copy, is_retired: false }
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

impl EpochKeys {
    pub fn in_memory(epoch: Duration) -> Self {
        Self::with_storage(epoch, KeyStorage::Memory)
    }

    /// Loads the keys that an earlier process saved in this file, and saves new keys there. The
    /// caller ensures that the file is not on a persistent disk.
    ///
    /// Errors: the file is damaged, locked, readable by others or not writable.
    pub fn in_file(epoch: Duration, path: &Path) -> Result<Self, EpochFileError> {
        let file = KeyFile::lock(path)?;
        let entries = file.load()?;
        let keys = Self::with_storage(epoch, KeyStorage::File(file));
        {
            let mut state = keys.state();
            for (ends_ms, version, bytes) in entries {
                let key = keys.storage.build_key(version, bytes);
                state.keys.insert((ends_ms, version), key);
            }
            state.unsaved = true;
            keys.save(&mut state)?;
        }
        Ok(keys)
    }

    /// Shares keys between the nodes of one vault. Sealing fails before [`EpochKeys::unlock`].
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
    /// Errors: the keys are shared and the key of this epoch is not loaded; see
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
        let key = self.storage.build_key(version, bytes);
        let sealed = key.record.seal(place, plaintext.expose());
        state.keys.insert((end, version), key);
        state.unsaved = true;
        // If saving fails, a restart loses these CVCs. `destroy_expired` retries and reports the
        // error.
        drop(self.save(state));
        Ok(sealed)
    }

    /// Opens a value that was sealed with the same `ends_ms`.
    /// Errors: the bytes are damaged or belong to another place.
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
    /// Errors: the file could not be rewritten. If it is writable at all, its old content was
    /// overwritten, so the destroyed keys are not in it. The remaining keys then exist only in
    /// memory and are lost when the process ends.
    pub fn destroy_expired(&self, now_ms: i64) -> Result<(), EpochFileError> {
        let state = &mut *self.state();
        let count_before = state.keys.len();
        state.keys.retain(|(end, _), _| *end > now_ms);
        state.destroyed_until_ms = state.destroyed_until_ms.max(Some(now_ms));
        state.unsaved |= state.keys.len() < count_before;
        self.save(state)
    }

    /// When the next key expires.
    pub fn next_expiry_ms(&self) -> Option<i64> {
        self.state().keys.keys().next().map(|(end, _)| *end)
    }

    /// The number of keys in memory.
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

hide_in_debug! { EpochKeys }

#[cfg(test)]
mod tests;
