//! Keys that die: card verification codes are sealed with one of these, and nothing else is.
//!
//! An epoch key is derived from nothing, and never in a database or a backup. Once it is destroyed,
//! no copy, log page or root key brings back what it sealed. Losing one early costs codes under an
//! hour old, never a card number.

mod file;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt, io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    CannotOpen, Place, Sealed, Secret, chance::random, epoch::file::KeyFile, record::RecordKey,
};

/// The keys of the epochs that have not ended.
pub struct EpochKeys {
    epoch_ms: i64,
    keeping: Keeping,
    state: Mutex<State>,
}

/// Where the keys are, besides this process's memory.
enum Keeping {
    /// Nowhere: they end with the process.
    Memory,
    /// In a file that ends with the machine's run. A key that never leaves its hardware would be
    /// another of these.
    File(KeyFile),
}

#[derive(Default)]
struct State {
    /// By the instant at which the epoch ends.
    keys: BTreeMap<i64, EpochKey>,
    /// The file does not hold what is here.
    unsaved: bool,
}

/// Its version is random, so that a key that was lost is told from an altered record.
struct EpochKey {
    record: RecordKey,
    /// For the file; a key that is in memory only is not here twice.
    bytes: Option<Secret>,
}

impl EpochKey {
    fn new(version: u32, bytes: Secret, keeping: &Keeping) -> Self {
        let record = RecordKey::new(version, &bytes, "epoch");
        let bytes = match keeping {
            Keeping::Memory => None,
            Keeping::File(_) => Some(bytes),
        };
        Self { record, bytes }
    }
}

/// What became of a value sealed under an epoch key.
#[derive(Debug)]
pub enum OpenEpoch {
    Open(Secret),
    /// Its key was destroyed, or this process never had it.
    Gone,
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
        Self::keeping(epoch, Keeping::Memory)
    }

    /// Keys that another process left in this file, and new ones beside them. The caller has seen
    /// to it that the file is not on a disk.
    ///
    /// # Errors
    /// The file is not one of ours, can be read by others, or cannot be written.
    pub fn in_file(epoch: Duration, path: &Path) -> Result<Self, EpochFileError> {
        let file = KeyFile::lock(path)?;
        let found = file.load()?;
        let keys = Self::keeping(epoch, Keeping::File(file));
        {
            let mut state = keys.state();
            for (ends_ms, version, bytes) in found {
                state.keys.insert(ends_ms, EpochKey::new(version, bytes, &keys.keeping));
            }
            state.unsaved = true;
            keys.save(&mut state)?;
        }
        Ok(keys)
    }

    fn keeping(epoch: Duration, keeping: Keeping) -> Self {
        let epoch_ms = i64::try_from(epoch.as_millis()).unwrap_or(i64::MAX).max(1);
        Self { epoch_ms, keeping, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals so that the value cannot be opened once the epoch of `ends_ms` is over.
    #[must_use]
    pub fn seal(&self, place: &Place, plaintext: &Secret, ends_ms: i64) -> Sealed {
        let state = &mut *self.state();
        let key = match state.keys.entry(self.epoch_end(ends_ms)) {
            Entry::Occupied(it) => it.into_mut(),
            Entry::Vacant(it) => {
                state.unsaved = true;
                let bytes = Secret::new(Zeroizing::new(random::<32>()).to_vec());
                it.insert(EpochKey::new(u32::from_be_bytes(random()), bytes, &self.keeping))
            }
        };
        let sealed = key.record.seal(place, plaintext.expose());
        // Should it fail, a restart would cost these codes; whoever destroys keys hears of it.
        drop(self.save(state));
        sealed
    }

    /// # Errors
    /// The bytes are damaged or belong to another place.
    pub fn open(&self, place: &Place, sealed: &Sealed) -> Result<OpenEpoch, CannotOpen> {
        let version = sealed.key_version()?;
        match self.state().keys.values().find(|it| it.record.version == version) {
            Some(key) => Ok(OpenEpoch::Open(key.record.open(place, sealed)?)),
            None => Ok(OpenEpoch::Gone),
        }
    }

    /// Destroys the keys of every epoch that has ended: here, and in the file if there is one.
    ///
    /// # Errors
    /// The file could not be written anew. What was destroyed is then not in it either, if it can
    /// be written at all: all of it was wiped, and the other keys would not outlive this process.
    pub fn destroy_ended(&self, now_ms: i64) -> Result<(), EpochFileError> {
        let state = &mut *self.state();
        let had = state.keys.len();
        state.keys.retain(|end, _| *end > now_ms);
        state.unsaved |= state.keys.len() < had;
        self.save(state)
    }

    /// When the next key is to be destroyed.
    #[must_use]
    pub fn next_end_ms(&self) -> Option<i64> {
        self.state().keys.keys().next().copied()
    }

    /// How many keys there are now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().keys.len()
    }

    fn save(&self, state: &mut State) -> Result<(), EpochFileError> {
        if let (true, Keeping::File(file)) = (state.unsaved, &self.keeping) {
            let keys = state.keys.iter();
            file.save(
                keys.filter_map(|(end, it)| Some((*end, it.record.version, it.bytes.as_ref()?))),
            )?;
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
