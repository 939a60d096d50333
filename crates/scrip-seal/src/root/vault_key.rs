//! The vault key, which wraps all stored keys, and the key ring that holds it in memory.

use std::sync::{Arc, PoisonError, RwLock};

use zeroize::Zeroizing;

use crate::{
    KeySource, KeySourceError, OpenError, Place, Sealed, Secret, random::random_bytes,
    record::RecordKey, root::key_source::KEY_BYTES,
};

/// Wraps the keys below it. It is stored only in wrapped form, once for each unlock method.
#[derive(Debug)]
pub struct VaultKey {
    key: Secret,
    record: RecordKey,
}

impl VaultKey {
    /// The version of the first key of a vault.
    pub const FIRST_VERSION: u32 = 1;

    /// A new random key.
    pub fn generate(version: u32) -> Self {
        let key = Zeroizing::new(random_bytes::<KEY_BYTES>());
        Self::new(version, Secret::new(key.to_vec()))
    }

    /// The key that an unlock method returned.
    /// Errors: the secret does not have the length of a vault key.
    pub fn from_secret(version: u32, key: Secret) -> Result<Self, KeySourceError> {
        match key.expose().len() {
            KEY_BYTES => Ok(Self::new(version, key)),
            _ => Err(KeySourceError::Foreign(OpenError::Malformed)),
        }
    }

    /// The label is the one of the root key, which was the first version of the vault key.
    pub(crate) fn new(version: u32, key: Secret) -> Self {
        let record = RecordKey::new(version, &key, "root");
        Self { key, record }
    }

    pub fn version(&self) -> u32 {
        self.record.version
    }

    /// The key itself, for an unlock method that wraps it.
    pub fn secret(&self) -> &Secret {
        &self.key
    }
}

impl KeySource for VaultKey {
    fn wrap(&self, place: &Place, key: &Secret) -> Result<Sealed, KeySourceError> {
        Ok(self.record.seal(place, key.expose()))
    }

    fn unwrap(&self, place: &Place, wrapped: &Sealed) -> Result<Secret, KeySourceError> {
        Ok(self.record.open(place, wrapped)?)
    }
}

/// The vault key of an open vault. After a rotation the ring also opens keys of the previous
/// version, because shared epoch keys of the last hour are wrapped by it.
#[derive(Default)]
pub struct VaultKeyRing(RwLock<RingState>);

#[derive(Default, Clone)]
struct RingState {
    current: Option<Arc<VaultKey>>,
    previous: Option<Arc<VaultKey>>,
}

impl VaultKeyRing {
    pub fn new(key: VaultKey) -> Self {
        Self(RwLock::new(RingState { current: Some(Arc::new(key)), previous: None }))
    }

    /// The key that wraps new keys; `None` after [`VaultKeyRing::clear`].
    pub fn current(&self) -> Option<Arc<VaultKey>> {
        self.state().current
    }

    /// Sets the key after the vault was unsealed again, or after a rotation.
    pub fn replace(&self, key: impl Into<Arc<VaultKey>>) {
        let key = key.into();
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_rotated = |it: &Arc<VaultKey>| it.version() < key.version();
        let previous = state.current.take().filter(is_rotated);
        *state = RingState { current: Some(key), previous };
    }

    /// Forgets the version before the current one.
    pub fn forget_previous(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).previous = None;
    }

    /// Forgets all keys: the vault is sealed.
    pub fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = RingState::default();
    }

    fn state(&self) -> RingState {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl KeySource for VaultKeyRing {
    fn wrap(&self, place: &Place, key: &Secret) -> Result<Sealed, KeySourceError> {
        self.current().ok_or(KeySourceError::VaultSealed)?.wrap(place, key)
    }

    fn unwrap(&self, place: &Place, wrapped: &Sealed) -> Result<Secret, KeySourceError> {
        let RingState { current, previous } = self.state();
        let current = current.ok_or(KeySourceError::VaultSealed)?;
        let version = wrapped.key_version()?;
        let is_wrapping_key = |it: &Arc<VaultKey>| it.version() == version;
        previous.filter(is_wrapping_key).unwrap_or(current).unwrap(place, wrapped)
    }
}

hide_in_debug! { VaultKeyRing }

/// Wraps a stored key with another vault key.
pub(crate) fn rewrap(
    old: &dyn KeySource,
    new: &dyn KeySource,
    place: &Place,
    wrapped: &Sealed,
) -> Result<Sealed, KeySourceError> {
    new.wrap(place, &old.unwrap(place, wrapped)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RootKey;

    fn place() -> Place {
        Place::new("test")
    }

    #[test]
    fn vault_key_opens_what_the_root_key_of_the_same_bytes_wrapped() {
        let text = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let wrapped = RootKey::from_text(text)
            .and_then(|it| it.wrap(&place(), &Secret::new(vec![7; 32])))
            .unwrap();
        let key = VaultKey::from_secret(1, Secret::new((0..32).collect())).unwrap();
        assert_eq!(key.unwrap(&place(), &wrapped).unwrap().expose(), [7; 32]);
    }

    #[test]
    fn secret_of_another_length_is_no_vault_key() {
        for length in [0, 16, 31, 33] {
            assert!(VaultKey::from_secret(1, Secret::new(vec![7; length])).is_err(), "{length}");
        }
    }

    #[test]
    fn key_ring_opens_the_previous_version_until_it_is_forgotten() {
        let ring = VaultKeyRing::new(VaultKey::generate(1));
        let wrapped = ring.wrap(&place(), &Secret::new(vec![7; 32])).unwrap();
        ring.replace(VaultKey::generate(2));
        assert_eq!(ring.unwrap(&place(), &wrapped).unwrap().expose(), [7; 32]);
        let wrapped_by_new = ring.wrap(&place(), &Secret::new(vec![8; 32])).unwrap();
        assert_eq!(wrapped_by_new.key_version(), Ok(2));
        ring.forget_previous();
        assert!(matches!(ring.unwrap(&place(), &wrapped), Err(KeySourceError::Foreign(_))));
        assert_eq!(ring.unwrap(&place(), &wrapped_by_new).unwrap().expose(), [8; 32]);
    }

    #[test]
    fn cleared_key_ring_neither_wraps_nor_unwraps() {
        let ring = VaultKeyRing::new(VaultKey::generate(1));
        let wrapped = ring.wrap(&place(), &Secret::new(vec![7; 32])).unwrap();
        ring.clear();
        assert!(matches!(ring.unwrap(&place(), &wrapped), Err(KeySourceError::VaultSealed)));
        let result = ring.wrap(&place(), &Secret::new(vec![7; 32]));
        assert!(matches!(result, Err(KeySourceError::VaultSealed)));
        assert!(ring.current().is_none());
    }
}
