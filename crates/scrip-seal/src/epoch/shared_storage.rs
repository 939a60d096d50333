//! The storage of shared epoch keys: the key exchange, through which the nodes of a vault share
//! wrapped epoch keys, and the wrapping of its keys.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
};

use scrip_types::hex::encode_hex;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    KeySource, KeySourceError, Place, Sealed, Secret,
    epoch::epoch_key::{EpochKey, KeyCopy},
    random::random_bytes,
    record::RecordKey,
};

pub(super) struct SharedStorage {
    pub(super) exchange: Arc<dyn KeyExchange>,
    wrapper: RwLock<Wrappers>,
}

/// The present names of shared keys, and those before a compromise of the vault key.
#[derive(Default, Clone)]
pub(super) struct Wrappers {
    pub(super) current: Option<Arc<EpochKeyWrapper>>,
    pub(super) previous: Option<Arc<EpochKeyWrapper>>,
}

/// Wraps and unwraps epoch keys. Only an open vault has one.
pub(super) struct EpochKeyWrapper {
    pub(super) source: Arc<dyn KeySource>,
    pub(super) vault_id: [u8; 32],
}

impl SharedStorage {
    pub(super) fn new(exchange: Arc<dyn KeyExchange>) -> Self {
        Self { exchange, wrapper: RwLock::default() }
    }

    pub(super) fn wrappers(&self) -> Wrappers {
        self.wrapper.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn wrapper(&self) -> Result<Arc<EpochKeyWrapper>, EpochKeyError> {
        self.wrappers().current.ok_or(EpochKeyError::VaultSealed)
    }

    pub(super) fn set_wrapper(&self, source: Arc<dyn KeySource>, vault_id: [u8; 32]) {
        let mut wrappers = self.wrapper.write().unwrap_or_else(PoisonError::into_inner);
        // The first key source is the one that opened the vault.
        if wrappers.current.as_ref().is_none_or(|it| it.vault_id != vault_id) {
            let current = Arc::new(EpochKeyWrapper { source, vault_id });
            wrappers.previous = wrappers.current.replace(current);
        }
    }
}

impl EpochKeyWrapper {
    pub(super) fn shared_epoch(&self, ends_ms: i64) -> SharedEpoch {
        let vault = encode_hex(self.vault_id.get(..16).unwrap_or(&self.vault_id));
        SharedEpoch { name: format!("scrip:epoch:{vault}:{ends_ms}"), ends_ms }
    }

    pub(super) fn create_key(&self, ends_ms: i64) -> Result<WrappedEpochKey, EpochKeyError> {
        let version = u32::from_be_bytes(random_bytes());
        let bytes = Secret::new(Zeroizing::new(random_bytes::<32>()).to_vec());
        let wrapped = self.source.wrap(&self.place(ends_ms, version), &bytes);
        Ok(WrappedEpochKey { version, wrapped: wrapped.map_err(EpochKeyError::KeySource)? })
    }

    /// Returns `None` for a key of another vault, epoch or version.
    pub(super) fn unwrap_key(
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

    pub(super) fn place(&self, ends_ms: i64, version: u32) -> Place {
        Place::new("epoch key").bytes(&self.vault_id).number(ends_ms).number(version.into())
    }
}

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
