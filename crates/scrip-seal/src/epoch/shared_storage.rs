//! Epoch keys that several nodes share. Each is made by one node and left for the others, wrapped by
//! the root key, where it is forgotten when its epoch ends.
//!
//! No node seals with a key that it has not seen there, so whoever finds a value finds its key as
//! well. What was seen is kept in memory until the epoch ends: the others are asked once for each
//! epoch, and not for each value.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    KeySource, KeySourceError, Place, Sealed, Secret,
    epoch::{EpochKey, EpochKeys, KeyCopy, KeyStorage},
    random::random_bytes,
    record::RecordKey,
};

/// Where nodes leave wrapped keys for each other. It must forget an epoch when that ends, and must
/// not write it to a disk.
pub trait KeyExchange: Send + Sync {
    /// Leaves keys there, and gives all that are there then.
    fn exchange<'a>(
        &'a self,
        epoch: &'a SharedEpoch,
        offer: KeyOffer<'a>,
    ) -> KeyExchangeFuture<'a, Vec<WrappedEpochKey>>;

    /// Whether it answers now.
    fn is_available(&self) -> bool;

    /// How often it did not.
    fn failure_count(&self) -> u64;
}

pub type KeyExchangeFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, EpochKeyError>> + Send + 'a>>;

/// An epoch of one vault. Its name tells nobody which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedEpoch {
    pub name: String,
    pub ends_ms: i64,
}

#[derive(Debug, Clone, Copy)]
pub enum KeyOffer<'a> {
    None,
    /// Only where there is none yet: the first one is everybody's.
    IfAbsent(&'a WrappedEpochKey),
    /// Beside others: values were sealed with it.
    Restore(&'a [WrappedEpochKey]),
}

/// Safe to leave with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedEpochKey {
    pub version: u32,
    pub wrapped: Sealed,
}

/// Whether a value's key is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPresence {
    Available,
    /// Nobody has it any more.
    Destroyed,
}

/// Why a key that nodes share is not at hand. Card numbers do not need it.
#[derive(Debug, Error)]
pub enum EpochKeyError {
    #[error("the vault is sealed")]
    VaultSealed,
    #[error("the key of this epoch was not asked for")]
    NotLoaded,
    #[error("the shared epoch keys do not answer")]
    NoResponse,
    #[error("the shared epoch keys did not keep one; their clock may be ahead")]
    NotStored,
    #[error("the shared epoch keys have one that this vault did not make")]
    ForeignKey,
    #[error(transparent)]
    KeySource(KeySourceError),
}

pub(super) struct SharedStorage {
    exchange: Arc<dyn KeyExchange>,
    wrapper: OnceLock<EpochKeyWrapper>,
}

/// What only an open vault has.
struct EpochKeyWrapper {
    source: Arc<dyn KeySource>,
    vault_id: [u8; 32],
}

impl SharedStorage {
    pub(super) fn new(exchange: Arc<dyn KeyExchange>) -> Self {
        Self { exchange, wrapper: OnceLock::new() }
    }

    fn wrapper(&self) -> Result<&EpochKeyWrapper, EpochKeyError> {
        self.wrapper.get().ok_or(EpochKeyError::VaultSealed)
    }
}

impl EpochKeyWrapper {
    fn shared_epoch(&self, ends_ms: i64) -> SharedEpoch {
        let vault: String = self.vault_id.iter().take(16).map(|it| format!("{it:02x}")).collect();
        SharedEpoch { name: format!("scrip:epoch:{vault}:{ends_ms}"), ends_ms }
    }

    fn create_key(&self, ends_ms: i64) -> Result<WrappedEpochKey, EpochKeyError> {
        let version = u32::from_be_bytes(random_bytes());
        let bytes = Secret::new(Zeroizing::new(random_bytes::<32>()).to_vec());
        let wrapped = self.source.wrap(&self.place(ends_ms, version), &bytes);
        Ok(WrappedEpochKey { version, wrapped: wrapped.map_err(EpochKeyError::KeySource)? })
    }

    /// Nothing of one that was not made for this vault, epoch and version.
    fn unwrap_key(
        &self,
        ends_ms: i64,
        key: WrappedEpochKey,
    ) -> Result<Option<EpochKey>, EpochKeyError> {
        let WrappedEpochKey { version, wrapped } = key;
        match self.source.unwrap(&self.place(ends_ms, version), &wrapped) {
            Ok(bytes) => {
                let record = RecordKey::new(version, &bytes, "epoch");
                Ok(Some(EpochKey { record, copy: KeyCopy::Wrapped(wrapped) }))
            }
            Err(KeySourceError::Foreign(_)) => Ok(None),
            Err(error) => Err(EpochKeyError::KeySource(error)),
        }
    }

    fn place(&self, ends_ms: i64, version: u32) -> Place {
        Place::new("epoch key").bytes(&self.vault_id).number(ends_ms).number(version.into())
    }
}

impl EpochKeys {
    /// The vault is open: keys can be wrapped for other nodes, and theirs unwrapped. `vault` is what
    /// its nodes have in common, and nobody else has.
    pub fn unlock(&self, source: Arc<dyn KeySource>, vault_id: [u8; 32]) {
        if let KeyStorage::Shared(shared) = &self.storage {
            // The first one stays: it is what opened the vault.
            drop(shared.wrapper.set(EpochKeyWrapper { source, vault_id }));
        }
    }

    /// Has the key at hand that [`EpochKeys::seal`] takes for `ends_ms`.
    ///
    /// # Errors
    /// Nodes share it, and it cannot be asked for.
    pub async fn load_sealing_key(&self, ends_ms: i64) -> Result<(), EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(()) };
        let end = self.epoch_end(ends_ms);
        if self.has_key(end) {
            return Ok(());
        }
        let unlocked = shared.wrapper()?;
        let key = unlocked.create_key(end)?;
        let epoch = unlocked.shared_epoch(end);
        let found = shared.exchange.exchange(&epoch, KeyOffer::IfAbsent(&key)).await?;
        if found.is_empty() {
            return Err(EpochKeyError::NotStored);
        }
        self.insert_unwrapped(unlocked, end, found)?;
        if self.has_key(end) { Ok(()) } else { Err(EpochKeyError::ForeignKey) }
    }

    /// Has the key at hand that [`EpochKeys::open`] takes, if there is one. Of keys that are not
    /// shared, `open` itself tells.
    ///
    /// # Errors
    /// Nodes share it, and it cannot be asked for.
    pub async fn load_opening_key(
        &self,
        sealed: &Sealed,
        ends_ms: i64,
    ) -> Result<KeyPresence, EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(KeyPresence::Available) };
        // What is damaged is not for us to tell.
        let Ok(version) = sealed.key_version() else { return Ok(KeyPresence::Available) };
        let end = self.epoch_end(ends_ms);
        {
            let state = self.state();
            if state.keys.contains_key(&(end, version)) {
                return Ok(KeyPresence::Available);
            }
            if state.is_destroyed(end) {
                return Ok(KeyPresence::Destroyed);
            }
        }
        let unlocked = shared.wrapper()?;
        let found = shared.exchange.exchange(&unlocked.shared_epoch(end), KeyOffer::None).await?;
        self.insert_unwrapped(unlocked, end, found)?;
        let here = self.state().keys.contains_key(&(end, version));
        Ok(if here { KeyPresence::Available } else { KeyPresence::Destroyed })
    }

    /// Leaves all that is held here with the others again: they may have lost it.
    ///
    /// # Errors
    /// They do not answer.
    pub async fn republish(&self) -> Result<(), EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(()) };
        let Some(unlocked) = shared.wrapper.get() else { return Ok(()) };
        let mut after = i64::MIN;
        while let Some((end, keys)) = self.next_wrapped_keys(after) {
            let found = shared
                .exchange
                .exchange(&unlocked.shared_epoch(end), KeyOffer::Restore(&keys))
                .await?;
            self.insert_unwrapped(unlocked, end, found)?;
            after = end;
        }
        Ok(())
    }

    /// Where keys are left for other nodes, if they are.
    #[must_use]
    pub fn exchange(&self) -> Option<&dyn KeyExchange> {
        match &self.storage {
            KeyStorage::Shared(shared) => Some(&*shared.exchange),
            KeyStorage::Memory | KeyStorage::File(_) => None,
        }
    }

    fn has_key(&self, end: i64) -> bool {
        self.state().keys_in_epoch(end).next().is_some()
    }

    /// The next epoch behind this one, and what is held of it.
    fn next_wrapped_keys(&self, after: i64) -> Option<(i64, Vec<WrappedEpochKey>)> {
        let state = self.state();
        let ((end, _), _) = state.keys.range((after.saturating_add(1), 0)..).next()?;
        let wrapped = |it: &EpochKey| match &it.copy {
            KeyCopy::Wrapped(wrapped) => {
                Some(WrappedEpochKey { version: it.record.version, wrapped: wrapped.clone() })
            }
            KeyCopy::None | KeyCopy::Bytes(_) => None,
        };
        Some((*end, state.keys_in_epoch(*end).filter_map(wrapped).collect()))
    }

    /// What others left, if it is ours and its epoch is not over.
    fn insert_unwrapped(
        &self,
        unlocked: &EpochKeyWrapper,
        end: i64,
        found: Vec<WrappedEpochKey>,
    ) -> Result<(), EpochKeyError> {
        for key in found {
            let version = key.version;
            if self.state().keys.contains_key(&(end, version)) {
                continue;
            }
            let Some(key) = unlocked.unwrap_key(end, key)? else { continue };
            let mut state = self.state();
            if !state.is_destroyed(end) {
                state.keys.insert((end, version), key);
            }
        }
        Ok(())
    }
}
