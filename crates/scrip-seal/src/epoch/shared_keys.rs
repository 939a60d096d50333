//! Epoch keys that the nodes of a vault share. One node creates each key and offers it to the
//! others through a key exchange, wrapped by the root key. The exchange deletes the key when its
//! epoch ends.
//!
//! A node seals only with a key that it has read from the exchange, so every node that reads a
//! sealed value can also get its key. Keys stay in memory until their epoch ends: a node contacts
//! the exchange once per epoch and not once per value.

use std::sync::Arc;

use crate::{
    KeySource, Sealed,
    epoch::{
        EpochKeys, KeyStorage,
        epoch_key::{EpochKey, KeyCopy},
        shared_storage::{
            EpochKeyError, EpochKeyWrapper, KeyExchange, KeyOffer, KeyPresence, WrappedEpochKey,
        },
    },
    root::vault_key::rewrap,
};

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
    /// Errors: the keys are shared and the key could not be loaded.
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
    /// Errors: the keys are shared and the key exchange could not be read.
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
    /// Errors: the key exchange is unavailable.
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
    /// Errors: the vault is sealed, or a key cannot be unwrapped.
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
