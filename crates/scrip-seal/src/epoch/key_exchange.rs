//! The key exchange, through which the nodes of a vault share wrapped epoch keys.

use std::{future::Future, pin::Pin};

use thiserror::Error;

use crate::{KeySourceError, Sealed};

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
