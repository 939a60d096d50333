//! Keys that die: card verification codes are sealed with one of these, and nothing else is.
//!
//! An epoch key is derived from nothing, and never in a database or a backup. Once it is destroyed,
//! no copy, log page or root key brings back what it sealed. Losing one early costs codes under an
//! hour old, never a card number.

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

/// Where the keys are, besides this process's memory.
enum KeyStorage {
    /// Nowhere: they end with the process.
    Memory,
    /// In a file that ends with the machine's run. A key that never leaves its hardware would be
    /// another of these.
    File(KeyFile),
    /// Where other nodes find them, wrapped.
    Shared(SharedStorage),
}

#[derive(Default)]
struct EpochKeyState {
    /// By the instant at which the epoch ends, and the key's version. Of several keys of one epoch,
    /// which only nodes that lost sight of each other make, everybody seals with the first.
    keys: BTreeMap<(i64, u32), EpochKey>,
    /// The file does not hold what is here.
    unsaved: bool,
    /// Whatever ended by then was destroyed here, and does not come back.
    destroyed_until_ms: Option<i64>,
}

impl EpochKeyState {
    fn keys_in_epoch(&self, end: i64) -> impl Iterator<Item = &EpochKey> {
        self.keys.range((end, 0)..=(end, u32::MAX)).map(|(_, key)| key)
    }

    fn is_destroyed(&self, end: i64) -> bool {
        self.destroyed_until_ms.is_some_and(|it| end <= it)
    }
}

/// Its version is random, so that a key that was lost is told from an altered record.
struct EpochKey {
    record: RecordKey,
    copy: KeyCopy,
}

/// What is kept of a key to be written elsewhere: a key that is in memory only is not here twice.
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
        let twin = match storage {
            KeyStorage::Memory | KeyStorage::Shared(_) => KeyCopy::None,
            KeyStorage::File(_) => KeyCopy::Bytes(bytes),
        };
        Self { record, copy: twin }
    }

    fn bytes(&self) -> Option<&Secret> {
        match &self.copy {
            KeyCopy::Bytes(bytes) => Some(bytes),
            KeyCopy::None | KeyCopy::Wrapped(_) => None,
        }
    }
}

/// What became of a value sealed under an epoch key.
#[derive(Debug)]
pub enum OpenedValue {
    Open(Secret),
    /// Its key was destroyed, or this process never had it.
    KeyDestroyed,
    /// Another node may have its key: see [`EpochKeys::find`].
    KeyNotLoaded,
}

/// Why the file of epoch keys is of no use.
#[derive(Debug, Error)]
pub enum EpochFileError {
    #[error(
        "the file of epoch keys is not one of ours; remove it, which costs the codes it is for"
    )]
    Damaged,
    #[error("the file of epoch keys can be read by others, or is no plain file; remove it")]
    Exposed,
    #[error("the file of epoch keys is another process's")]
    InUse,
    #[error("the file of epoch keys cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl EpochKeys {
    #[must_use]
    pub fn in_memory(epoch: Duration) -> Self {
        Self::with_storage(epoch, KeyStorage::Memory)
    }

    /// Keys that another process left in this file, and new ones beside them. The caller has seen
    /// to it that the file is not on a disk.
    ///
    /// # Errors
    /// The file is not one of ours, can be read by others, or cannot be written.
    pub fn in_file(epoch: Duration, path: &Path) -> Result<Self, EpochFileError> {
        let file = KeyFile::lock(path)?;
        let found = file.load()?;
        let keys = Self::with_storage(epoch, KeyStorage::File(file));
        {
            let mut state = keys.state();
            for (ends_ms, version, bytes) in found {
                let key = EpochKey::new(version, bytes, &keys.storage);
                state.keys.insert((ends_ms, version), key);
            }
            state.unsaved = true;
            keys.save(&mut state)?;
        }
        Ok(keys)
    }

    /// Keys that nodes of one vault have in common. Nothing can be sealed before [`EpochKeys::unlock`].
    #[must_use]
    pub fn shared(epoch: Duration, exchange: Arc<dyn KeyExchange>) -> Self {
        Self::with_storage(epoch, KeyStorage::Shared(SharedStorage::new(exchange)))
    }

    fn with_storage(epoch: Duration, keeping: KeyStorage) -> Self {
        let epoch_ms = i64::try_from(epoch.as_millis()).unwrap_or(i64::MAX).max(1);
        Self { epoch_ms, storage: keeping, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, EpochKeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals so that the value cannot be opened once the epoch of `ends_ms` is over.
    ///
    /// # Errors
    /// The key is one that nodes share, and was not asked for; see [`EpochKeys::prepare`].
    pub fn seal(
        &self,
        place: &Place,
        plaintext: &Secret,
        ends_ms: i64,
    ) -> Result<Sealed, EpochKeyError> {
        let state = &mut *self.state();
        let end = self.epoch_end(ends_ms);
        if let Some(key) = state.keys_in_epoch(end).next() {
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
        // Should it fail, a restart would cost these codes; whoever destroys keys hears of it.
        drop(self.save(state));
        Ok(sealed)
    }

    /// What was sealed with the same `ends_ms`.
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
        let shared = matches!(self.storage, KeyStorage::Shared(_));
        let over = state.is_destroyed(self.epoch_end(ends_ms));
        Ok(if shared && !over { OpenedValue::KeyNotLoaded } else { OpenedValue::KeyDestroyed })
    }

    /// Destroys the keys of every epoch that has ended: here, and in the file if there is one.
    ///
    /// # Errors
    /// The file could not be written anew. What was destroyed is then not in it either, if it can
    /// be written at all: all of it was wiped, and the other keys would not outlive this process.
    pub fn destroy_expired(&self, now_ms: i64) -> Result<(), EpochFileError> {
        let state = &mut *self.state();
        let had = state.keys.len();
        state.keys.retain(|(end, _), _| *end > now_ms);
        state.destroyed_until_ms = state.destroyed_until_ms.max(Some(now_ms));
        state.unsaved |= state.keys.len() < had;
        self.save(state)
    }

    /// When the next key is to be destroyed.
    #[must_use]
    pub fn next_expiry_ms(&self) -> Option<i64> {
        self.state().keys.keys().next().map(|(end, _)| *end)
    }

    /// How many keys there are now.
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

    /// Epochs follow each other without a gap; a value that ends on the instant one does belongs to
    /// the next.
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
