//! Keys that die: card verification codes are sealed with one of these, and nothing else is.
//!
//! An epoch key is derived from nothing and stored nowhere. Once it is destroyed, no backup, log
//! page or root key brings back what it sealed. A restart destroys all of them: that costs codes
//! under an hour old, never a card number.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{CannotOpen, Place, Sealed, Secret, chance::random, record::RecordKey};

/// The keys of the epochs that have not ended.
pub struct EpochKeys {
    epoch_ms: i64,
    /// By the number of the epoch in which what it seals ends. A key's version is random, so
    /// that a key lost in a restart is told from an altered record.
    keys: Mutex<BTreeMap<i64, RecordKey>>,
}

/// What became of a value sealed under an epoch key.
#[derive(Debug)]
pub enum OpenEpoch {
    Open(Secret),
    /// Its key was destroyed, or this process never had it.
    Gone,
}

impl EpochKeys {
    #[must_use]
    pub fn in_memory(epoch: Duration) -> Self {
        let epoch_ms = i64::try_from(epoch.as_millis()).unwrap_or(i64::MAX).max(1);
        Self { epoch_ms, keys: Mutex::default() }
    }

    /// Seals so that the value cannot be opened once the epoch of `ends_ms` is over.
    #[must_use]
    pub fn seal(&self, place: &Place, plaintext: &Secret, ends_ms: i64) -> Sealed {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let key = keys.entry(self.epoch_of(ends_ms)).or_insert_with(|| {
            let key = Secret::new(random::<32>().to_vec());
            RecordKey::new(u32::from_be_bytes(random()), &key, "epoch")
        });
        key.seal(place, plaintext.expose())
    }

    /// # Errors
    /// The bytes are damaged or belong to another place.
    pub fn open(&self, place: &Place, sealed: &Sealed) -> Result<OpenEpoch, CannotOpen> {
        let version = sealed.key_version()?;
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match keys.values().find(|it| it.version == version) {
            Some(key) => Ok(OpenEpoch::Open(key.open(place, sealed)?)),
            None => Ok(OpenEpoch::Gone),
        }
    }

    /// Destroys the keys of every epoch that has ended.
    pub fn destroy_ended(&self, now_ms: i64) {
        let ended = now_ms.div_euclid(self.epoch_ms);
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|epoch, _| *epoch > ended);
    }

    /// Epoch `n` holds the instants in `[(n-1) * epoch, n * epoch)`, and ends at `n * epoch`.
    fn epoch_of(&self, ends_ms: i64) -> i64 {
        ends_ms.div_euclid(self.epoch_ms).saturating_add(1)
    }
}

impl fmt::Debug for EpochKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochKeys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn open(keys: &EpochKeys, sealed: &Sealed) -> Option<Vec<u8>> {
        match keys.open(&Place::new("cvc"), sealed).unwrap() {
            OpenEpoch::Open(secret) => Some(secret.expose().to_vec()),
            OpenEpoch::Gone => None,
        }
    }

    #[test]
    fn a_value_outlives_its_end_by_less_than_an_epoch() {
        let keys = EpochKeys::in_memory(Duration::from_secs(60));
        let ends = 10 * MINUTE + 1;
        let sealed = keys.seal(&Place::new("cvc"), &Secret::new(b"123".to_vec()), ends);
        for (now, expected) in
            [(0, true), (ends, true), (11 * MINUTE - 1, true), (11 * MINUTE, false)]
        {
            keys.destroy_ended(now);
            assert_eq!(open(&keys, &sealed).is_some(), expected, "at {now}");
        }
    }

    #[test]
    fn a_restart_loses_the_value_and_tells_it_from_tampering() {
        let keys = EpochKeys::in_memory(Duration::from_secs(60));
        let sealed = keys.seal(&Place::new("cvc"), &Secret::new(b"123".to_vec()), 5);
        let after = EpochKeys::in_memory(Duration::from_secs(60));
        assert_eq!(open(&after, &sealed), None);

        let mut bytes = sealed.as_bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        assert!(keys.open(&Place::new("cvc"), &Sealed::from_stored(bytes)).is_err());
    }
}
