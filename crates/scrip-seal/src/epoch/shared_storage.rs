//! Epoch keys that the nodes of a vault share. One node creates each key and offers it to the
//! others through a key exchange, wrapped by the root key. The exchange deletes the key when its
//! epoch ends.
//!
//! A node seals only with a key that it has read from the exchange, so every node that reads a
//! sealed value can also get its key. Keys stay in memory until their epoch ends: a node contacts
//! the exchange once per epoch and not once per value.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
};

use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    KeySource, KeySourceError, Place, Sealed, Secret,
    epoch::{EpochKey, EpochKeys, KeyCopy, KeyStorage},
    random::random_bytes,
    record::RecordKey,
    root::vault_key::rewrap,
};

/// Storage through which nodes exchange wrapped keys. An implementation must delete the keys of an
/// epoch when the epoch ends, and must not write them to a disk.
pub trait KeyExchange: Send + Sync {
    /// Stores the offered keys and returns all keys of the epoch.
    fn exchange<'a>(
        &'a self,
        epoch: &'a SharedEpoch,
        offer: KeyOffer<'a>,
    ) -> KeyExchangeFuture<'a, Vec<WrappedEpochKey>>;

    /// Whether the exchange is available now.
    fn is_available(&self) -> bool;

    /// The number of failed calls.
    fn failure_count(&self) -> u64;
}

pub type KeyExchangeFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, EpochKeyError>> + Send + 'a>>;

/// An epoch of one vault. The name does not reveal the vault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedEpoch {
    pub name: String,
    pub ends_ms: i64,
}

#[derive(Debug, Clone, Copy)]
pub enum KeyOffer<'a> {
    None,
    /// Stores the key only if the epoch has none: all nodes seal with the first key.
    IfAbsent(&'a WrappedEpochKey),
    /// Stores keys in addition to existing ones, because they have already sealed values.
    Restore(&'a [WrappedEpochKey]),
}

/// A wrapped key, safe to store in the exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedEpochKey {
    pub version: u32,
    pub wrapped: Sealed,
}

/// Whether the key of a value is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPresence {
    Available,
    /// No node has the key any more.
    Destroyed,
}

/// Why a shared key is unavailable. Card numbers do not need these keys.
#[derive(Debug, Error)]
pub enum EpochKeyError {
    #[error("the vault is sealed")]
    VaultSealed,
    #[error("the key of this epoch is not loaded")]
    NotLoaded,
    #[error("the epoch key exchange does not respond")]
    NoResponse,
    #[error("the epoch key exchange did not store the key; its clock may be ahead")]
    NotStored,
    #[error("the epoch key exchange holds a key of another vault")]
    ForeignKey,
    #[error(transparent)]
    KeySource(KeySourceError),
}

pub(super) struct SharedStorage {
    exchange: Arc<dyn KeyExchange>,
    wrapper: RwLock<Wrappers>,
}

/// The present names of shared keys, and those before a compromise of the vault key.
#[derive(Default, Clone)]
struct Wrappers {
    current: Option<Arc<EpochKeyWrapper>>,
    previous: Option<Arc<EpochKeyWrapper>>,
}

/// Wraps and unwraps epoch keys. Only an open vault has one.
struct EpochKeyWrapper {
    source: Arc<dyn KeySource>,
    vault_id: [u8; 32],
}

impl SharedStorage {
    pub(super) fn new(exchange: Arc<dyn KeyExchange>) -> Self {
        Self { exchange, wrapper: RwLock::default() }
    }

    fn wrappers(&self) -> Wrappers {
        self.wrapper.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wrapper(&self) -> Result<Arc<EpochKeyWrapper>, EpochKeyError> {
        self.wrappers().current.ok_or(EpochKeyError::VaultSealed)
    }

    fn set_wrapper(&self, source: Arc<dyn KeySource>, vault_id: [u8; 32]) {
        let mut wrappers = self.wrapper.write().unwrap_or_else(PoisonError::into_inner);
        // The first key source is the one that opened the vault.
        if wrappers.current.as_ref().is_none_or(|it| it.vault_id != vault_id) {
            let current = Arc::new(EpochKeyWrapper { source, vault_id });
            wrappers.previous = wrappers.current.replace(current);
        }
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

    /// Returns `None` for a key of another vault, epoch or version.
    fn unwrap_key(
        &self,
        ends_ms: i64,
        key: WrappedEpochKey,
    ) -> Result<Option<EpochKey>, EpochKeyError> {
        let WrappedEpochKey { version, wrapped } = key;
        match self.source.unwrap(&self.place(ends_ms, version), &wrapped) {
            Ok(bytes) => {
                let record = RecordKey::new(version, &bytes, "epoch");
                let copy = KeyCopy::Wrapped(wrapped);
                Ok(Some(EpochKey { record, copy, is_retired: false }))
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
    /// Enables wrapping and unwrapping after the vault was opened. All nodes of the vault use the
    /// same `vault_id`; no other vault has it. Another `vault_id` follows a compromise of the vault
    /// key: new values are then sealed with new keys, and the loaded keys only open.
    pub fn unlock(&self, source: Arc<dyn KeySource>, vault_id: [u8; 32]) {
        if let KeyStorage::Shared(shared) = &self.storage {
            shared.set_wrapper(source, vault_id);
        }
        self.state().set_vault_id(vault_id);
    }

    /// Loads the key that [`EpochKeys::seal`] needs for `ends_ms`.
    ///
    /// # Errors
    /// The keys are shared and the key could not be loaded.
    pub async fn load_sealing_key(&self, ends_ms: i64) -> Result<(), EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(()) };
        let end = self.epoch_end(ends_ms);
        if self.has_key(end) {
            return Ok(());
        }
        let wrapper = shared.wrapper()?;
        let key = wrapper.create_key(end)?;
        let epoch = wrapper.shared_epoch(end);
        let keys = shared.exchange.exchange(&epoch, KeyOffer::IfAbsent(&key)).await?;
        if keys.is_empty() {
            return Err(EpochKeyError::NotStored);
        }
        self.insert_unwrapped(&wrapper, end, keys)?;
        if self.has_key(end) { Ok(()) } else { Err(EpochKeyError::ForeignKey) }
    }

    /// Loads the key that [`EpochKeys::open`] needs, if it exists. Does nothing if the keys are not
    /// shared: `open` reports a missing key.
    ///
    /// # Errors
    /// The keys are shared and the key exchange could not be read.
    pub async fn load_opening_key(
        &self,
        sealed: &Sealed,
        ends_ms: i64,
    ) -> Result<KeyPresence, EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(KeyPresence::Available) };
        // Damaged bytes are reported by `open`.
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
        let (current, previous) = (shared.wrapper()?, shared.wrappers().previous);
        for wrapper in [Some(current), previous].into_iter().flatten() {
            let keys = shared.exchange.exchange(&wrapper.shared_epoch(end), KeyOffer::None).await?;
            self.insert_unwrapped(&wrapper, end, keys)?;
            if self.state().keys.contains_key(&(end, version)) {
                return Ok(KeyPresence::Available);
            }
        }
        Ok(KeyPresence::Destroyed)
    }

    /// Offers all loaded keys to the exchange again, in case it lost them.
    ///
    /// # Errors
    /// The key exchange is unavailable.
    pub async fn republish(&self) -> Result<(), EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(()) };
        let Some(wrapper) = shared.wrappers().current else { return Ok(()) };
        let mut last_end = i64::MIN;
        while let Some((end, keys)) = self.next_wrapped_keys(last_end) {
            let stored_keys = shared
                .exchange
                .exchange(&wrapper.shared_epoch(end), KeyOffer::Restore(&keys))
                .await?;
            self.insert_unwrapped(&wrapper, end, stored_keys)?;
            last_end = end;
        }
        Ok(())
    }

    /// Wraps the loaded keys with the current vault key, after its rotation. [`EpochKeys::republish`]
    /// then offers them to the other nodes.
    ///
    /// # Errors
    /// The vault is sealed, or a key cannot be unwrapped.
    pub fn rewrap(&self) -> Result<(), EpochKeyError> {
        let KeyStorage::Shared(shared) = &self.storage else { return Ok(()) };
        let Some(wrapper) = shared.wrappers().current else { return Ok(()) };
        let mut state = self.state();
        for ((end, version), key) in state.keys.iter_mut().filter(|(_, it)| !it.is_retired) {
            if let KeyCopy::Wrapped(wrapped) = &mut key.copy {
                let place = wrapper.place(*end, *version);
                let source = &*wrapper.source;
                let rewrapped = rewrap(source, source, &place, wrapped);
                *wrapped = rewrapped.map_err(EpochKeyError::KeySource)?;
            }
        }
        Ok(())
    }

    /// The key exchange, if the keys are shared.
    #[must_use]
    pub fn exchange(&self) -> Option<&dyn KeyExchange> {
        match &self.storage {
            KeyStorage::Shared(shared) => Some(&*shared.exchange),
            KeyStorage::Memory | KeyStorage::File(_) => None,
        }
    }

    fn has_key(&self, end: i64) -> bool {
        self.state().sealing_key(end).is_some()
    }

    /// The first epoch that ends later than `after`, with its wrapped keys.
    fn next_wrapped_keys(&self, after: i64) -> Option<(i64, Vec<WrappedEpochKey>)> {
        let state = self.state();
        let ((end, _), _) = state.keys.range((after.saturating_add(1), 0)..).next()?;
        // A retired key belongs to the names before a compromise.
        let to_wrapped = |it: &EpochKey| match &it.copy {
            KeyCopy::Wrapped(wrapped) if !it.is_retired => {
                Some(WrappedEpochKey { version: it.record.version, wrapped: wrapped.clone() })
            }
            KeyCopy::None | KeyCopy::Bytes(_) | KeyCopy::Wrapped(_) => None,
        };
        Some((*end, state.keys_in_epoch(*end).filter_map(to_wrapped).collect()))
    }

    /// Adds keys from the exchange that belong to this vault, unless their epoch has ended.
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
            let Some(mut key) = unlocked.unwrap_key(end, key)? else { continue };
            let mut state = self.state();
            key.is_retired = state.vault_id.is_some_and(|it| it != unlocked.vault_id);
            if !state.is_destroyed(end) {
                state.keys.insert((end, version), key);
            }
        }
        Ok(())
    }
}
