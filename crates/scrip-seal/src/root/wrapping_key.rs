//! A key-encryption key: it wraps the vault key for one unlock method.

use std::path::Path;

use zeroize::Zeroizing;

use crate::{
    KeySourceError, OpenError, Place, Sealed, Secret,
    random::random_bytes,
    record::RecordKey,
    root::key_source::{KEY_BYTES, create_key_file, parse_key, read_key_file},
};

/// Wraps the vault key. It comes from a file, from a variable, or from shares.
#[derive(Debug)]
pub struct WrappingKey {
    key: Secret,
    record: RecordKey,
}

const VERSION: u32 = 1;

impl WrappingKey {
    /// A new random key.
    pub fn generate() -> Self {
        let key = Zeroizing::new(random_bytes::<KEY_BYTES>());
        Self::new(Secret::new(key.to_vec()))
    }

    /// A key that was combined from shares.
    /// Errors: the secret does not have the length of a key.
    pub fn from_secret(key: Secret) -> Result<Self, KeySourceError> {
        match key.expose().len() {
            KEY_BYTES => Ok(Self::new(key)),
            _ => Err(KeySourceError::Malformed),
        }
    }

    /// Errors: the text is not the base64 of 32 bytes, or they are not random.
    pub fn from_text(text: &str) -> Result<Self, KeySourceError> {
        parse_key(text).map(Self::new)
    }

    /// Errors: the file is missing, malformed, or readable by others.
    pub fn from_file(path: &Path) -> Result<Self, KeySourceError> {
        read_key_file(path).map(Self::new)
    }

    /// Writes a new key to a file that only its owner can read. Never changes an existing file.
    /// Errors: the file exists or cannot be written.
    pub fn create_file(path: &Path) -> Result<(), KeySourceError> {
        create_key_file(path)
    }

    /// The label differs from the one of the vault key: a root key of an earlier vault, which is a
    /// vault key, and a wrapping key of the same bytes never open the same values.
    fn new(key: Secret) -> Self {
        let record = RecordKey::new(VERSION, &key, "unlock");
        Self { key, record }
    }

    /// The key itself, which is split into shares.
    pub fn secret(&self) -> &Secret {
        &self.key
    }

    pub fn wrap(&self, place: &Place, key: &Secret) -> Sealed {
        self.record.seal(place, key.expose())
    }

    /// Errors: another key wrapped these bytes, or they belong to another place.
    pub fn unwrap(&self, place: &Place, wrapped: &Sealed) -> Result<Secret, OpenError> {
        self.record.open(place, wrapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VaultKey;

    #[test]
    fn wrapping_key_opens_only_its_own_place() {
        let key = WrappingKey::generate();
        let [place, other_place] = ["a", "b"].map(|it| Place::new("vault key").text(it));
        let wrapped = key.wrap(&place, &Secret::new(vec![7; 32]));
        assert_eq!(key.unwrap(&place, &wrapped).unwrap().expose(), [7; 32]);
        assert!(key.unwrap(&other_place, &wrapped).is_err());
        assert!(WrappingKey::generate().unwrap(&place, &wrapped).is_err());
    }

    #[test]
    fn wrapping_key_and_vault_key_of_the_same_bytes_are_independent() {
        use crate::KeySource;
        let bytes: Vec<u8> = (0..32).collect();
        let wrapping_key = WrappingKey::from_secret(Secret::new(bytes.clone())).unwrap();
        let vault_key = VaultKey::from_secret(1, Secret::new(bytes)).unwrap();
        let place = Place::new("vault key");
        let wrapped = wrapping_key.wrap(&place, &Secret::new(vec![7; 32]));
        assert!(vault_key.unwrap(&place, &wrapped).is_err());
    }
}
