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
    chance::random,
    epoch::{EpochKey, EpochKeys, Keeping, Twin},
    record::RecordKey,
};

/// Where nodes leave wrapped keys for each other. It must forget an epoch when that ends, and must
/// not write it to a disk.
pub trait KeyExchange: Send + Sync {
    /// Leaves keys there, and gives all that are there then.
    fn exchange<'a>(
        &'a self,
        epoch: &'a NamedEpoch,
        leave: Leave<'a>,
    ) -> Asked<'a, Vec<WrappedEpochKey>>;

    /// Whether it answers now.
    fn answers(&self) -> bool;

    /// How often it did not.
    fn failed(&self) -> u64;
}

pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, EpochKeysAway>> + Send + 'a>>;

/// An epoch of one vault. Its name tells nobody which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedEpoch {
    pub name: String,
    pub ends_ms: i64,
}

#[derive(Debug, Clone, Copy)]
pub enum Leave<'a> {
    Nothing,
    /// Only where there is none yet: the first one is everybody's.
    First(&'a WrappedEpochKey),
    /// Beside others: values were sealed with it.
    Again(&'a [WrappedEpochKey]),
}

/// Safe to leave with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedEpochKey {
    pub version: u32,
    pub wrapped: Sealed,
}

/// Whether a value's key is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Here,
    /// Nobody has it any more.
    Gone,
}

/// Why a key that nodes share is not at hand. Card numbers do not need it.
#[derive(Debug, Error)]
pub enum EpochKeysAway {
    #[error("the vault is sealed")]
    Sealed,
    #[error("the key of this epoch was not asked for")]
    Unasked,
    #[error("the shared epoch keys do not answer")]
    Silent,
    #[error("the shared epoch keys did not keep one; their clock may be ahead")]
    Forgotten,
    #[error("the shared epoch keys have one that this vault did not make")]
    Foreign,
    #[error(transparent)]
    Source(KeySourceError),
}

pub(super) struct Shared {
    exchange: Arc<dyn KeyExchange>,
    unlocked: OnceLock<Unlocked>,
}

/// What only an open vault has.
struct Unlocked {
    source: Arc<dyn KeySource>,
    vault: [u8; 32],
}

impl Shared {
    pub(super) fn new(exchange: Arc<dyn KeyExchange>) -> Self {
        Self { exchange, unlocked: OnceLock::new() }
    }

    fn unlocked(&self) -> Result<&Unlocked, EpochKeysAway> {
        self.unlocked.get().ok_or(EpochKeysAway::Sealed)
    }
}

impl Unlocked {
    fn named(&self, ends_ms: i64) -> NamedEpoch {
        let vault: String = self.vault.iter().take(16).map(|it| format!("{it:02x}")).collect();
        NamedEpoch { name: format!("scrip:epoch:{vault}:{ends_ms}"), ends_ms }
    }

    fn draw(&self, ends_ms: i64) -> Result<WrappedEpochKey, EpochKeysAway> {
        let version = u32::from_be_bytes(random());
        let bytes = Secret::new(Zeroizing::new(random::<32>()).to_vec());
        let wrapped = self.source.wrap(&self.place(ends_ms, version), &bytes);
        Ok(WrappedEpochKey { version, wrapped: wrapped.map_err(EpochKeysAway::Source)? })
    }

    /// Nothing of one that was not made for this vault, epoch and version.
    fn open(&self, ends_ms: i64, key: WrappedEpochKey) -> Result<Option<EpochKey>, EpochKeysAway> {
        let WrappedEpochKey { version, wrapped } = key;
        match self.source.unwrap(&self.place(ends_ms, version), &wrapped) {
            Ok(bytes) => {
                let record = RecordKey::new(version, &bytes, "epoch");
                Ok(Some(EpochKey { record, twin: Twin::Wrapped(wrapped) }))
            }
            Err(KeySourceError::Foreign(_)) => Ok(None),
            Err(error) => Err(EpochKeysAway::Source(error)),
        }
    }

    fn place(&self, ends_ms: i64, version: u32) -> Place {
        Place::new("epoch key").bytes(&self.vault).number(ends_ms).number(version.into())
    }
}

impl EpochKeys {
    /// The vault is open: keys can be wrapped for other nodes, and theirs unwrapped. `vault` is what
    /// its nodes have in common, and nobody else has.
    pub fn unlock(&self, source: Arc<dyn KeySource>, vault: [u8; 32]) {
        if let Keeping::Shared(shared) = &self.keeping {
            // The first one stays: it is what opened the vault.
            drop(shared.unlocked.set(Unlocked { source, vault }));
        }
    }

    /// Has the key at hand that [`EpochKeys::seal`] takes for `ends_ms`.
    ///
    /// # Errors
    /// Nodes share it, and it cannot be asked for.
    pub async fn prepare(&self, ends_ms: i64) -> Result<(), EpochKeysAway> {
        let Keeping::Shared(shared) = &self.keeping else { return Ok(()) };
        let end = self.epoch_end(ends_ms);
        if self.holds(end) {
            return Ok(());
        }
        let unlocked = shared.unlocked()?;
        let key = unlocked.draw(end)?;
        let epoch = unlocked.named(end);
        let found = shared.exchange.exchange(&epoch, Leave::First(&key)).await?;
        if found.is_empty() {
            return Err(EpochKeysAway::Forgotten);
        }
        self.admit(unlocked, end, found)?;
        if self.holds(end) { Ok(()) } else { Err(EpochKeysAway::Foreign) }
    }

    /// Has the key at hand that [`EpochKeys::open`] takes, if there is one. Of keys that are not
    /// shared, `open` itself tells.
    ///
    /// # Errors
    /// Nodes share it, and it cannot be asked for.
    pub async fn find(&self, sealed: &Sealed, ends_ms: i64) -> Result<Presence, EpochKeysAway> {
        let Keeping::Shared(shared) = &self.keeping else { return Ok(Presence::Here) };
        // What is damaged is not for us to tell.
        let Ok(version) = sealed.key_version() else { return Ok(Presence::Here) };
        let end = self.epoch_end(ends_ms);
        {
            let state = self.state();
            if state.keys.contains_key(&(end, version)) {
                return Ok(Presence::Here);
            }
            if state.is_over(end) {
                return Ok(Presence::Gone);
            }
        }
        let unlocked = shared.unlocked()?;
        let found = shared.exchange.exchange(&unlocked.named(end), Leave::Nothing).await?;
        self.admit(unlocked, end, found)?;
        let here = self.state().keys.contains_key(&(end, version));
        Ok(if here { Presence::Here } else { Presence::Gone })
    }

    /// Leaves all that is held here with the others again: they may have lost it.
    ///
    /// # Errors
    /// They do not answer.
    pub async fn renew(&self) -> Result<(), EpochKeysAway> {
        let Keeping::Shared(shared) = &self.keeping else { return Ok(()) };
        let Some(unlocked) = shared.unlocked.get() else { return Ok(()) };
        let mut after = i64::MIN;
        while let Some((end, keys)) = self.wrapped_after(after) {
            let found = shared.exchange.exchange(&unlocked.named(end), Leave::Again(&keys)).await?;
            self.admit(unlocked, end, found)?;
            after = end;
        }
        Ok(())
    }

    /// Where keys are left for other nodes, if they are.
    #[must_use]
    pub fn exchange(&self) -> Option<&dyn KeyExchange> {
        match &self.keeping {
            Keeping::Shared(shared) => Some(&*shared.exchange),
            Keeping::Memory | Keeping::File(_) => None,
        }
    }

    fn holds(&self, end: i64) -> bool {
        self.state().of_epoch(end).next().is_some()
    }

    /// The next epoch behind this one, and what is held of it.
    fn wrapped_after(&self, after: i64) -> Option<(i64, Vec<WrappedEpochKey>)> {
        let state = self.state();
        let ((end, _), _) = state.keys.range((after.saturating_add(1), 0)..).next()?;
        let wrapped = |it: &EpochKey| match &it.twin {
            Twin::Wrapped(wrapped) => {
                Some(WrappedEpochKey { version: it.record.version, wrapped: wrapped.clone() })
            }
            Twin::None | Twin::Bytes(_) => None,
        };
        Some((*end, state.of_epoch(*end).filter_map(wrapped).collect()))
    }

    /// What others left, if it is ours and its epoch is not over.
    fn admit(
        &self,
        unlocked: &Unlocked,
        end: i64,
        found: Vec<WrappedEpochKey>,
    ) -> Result<(), EpochKeysAway> {
        for key in found {
            let version = key.version;
            if self.state().keys.contains_key(&(end, version)) {
                continue;
            }
            let Some(key) = unlocked.open(end, key)? else { continue };
            let mut state = self.state();
            if !state.is_over(end) {
                state.keys.insert((end, version), key);
            }
        }
        Ok(())
    }
}
