//! The root key, and the sources that wrap keys.

mod key_source;
pub(crate) mod vault_key;
mod wrapping_key;

use std::path::Path;

use crate::{
    Place, Sealed, Secret,
    root::key_source::{create_key_file, parse_key, read_key_file},
};

pub use self::{
    key_source::{KeySource, KeySourceError},
    vault_key::{VaultKey, VaultKeyRing},
    wrapping_key::WrappingKey,
};

/// A root key in this process's memory, read from a file or given as text. It is the first version
/// of the vault key of a vault without unlock methods.
#[derive(Debug)]
pub struct RootKey(VaultKey);

impl RootKey {
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

    fn new(key: Secret) -> Self {
        Self(VaultKey::new(VaultKey::FIRST_VERSION, key))
    }

    /// The vault key of a vault without unlock methods.
    pub fn into_vault_key(self) -> VaultKey {
        self.0
    }
}

impl KeySource for RootKey {
    fn wrap(&self, place: &Place, key: &Secret) -> Result<Sealed, KeySourceError> {
        self.0.wrap(place, key)
    }

    fn unwrap(&self, place: &Place, wrapped: &Sealed) -> Result<Secret, KeySourceError> {
        self.0.unwrap(place, wrapped)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use base64::{Engine, engine::general_purpose::STANDARD};

    use super::*;

    #[test]
    fn created_root_key_file_is_private_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.key");
        RootKey::create_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(RootKey::from_file(&path).is_ok());
        assert!(matches!(RootKey::create_file(&path), Err(KeySourceError::Io(_))));
    }

    #[test]
    fn root_key_file_readable_by_others_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.key");
        RootKey::create_file(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(RootKey::from_file(&path), Err(KeySourceError::Exposed)));
    }

    #[test]
    fn malformed_root_key_text_is_rejected() {
        for text in ["", "AAAA", "not base64 at all", &STANDARD.encode([1; 31])] {
            assert!(matches!(RootKey::from_text(text), Err(KeySourceError::Malformed)), "{text:?}");
        }
    }

    #[test]
    fn root_key_with_fewer_than_eight_different_bytes_is_rejected() {
        let key_with = |different_bytes: u8| {
            let bytes: Vec<_> = (0..different_bytes).cycle().take(32).collect();
            RootKey::from_text(&STANDARD.encode(bytes))
        };
        for different_bytes in 1..8 {
            assert!(
                matches!(key_with(different_bytes), Err(KeySourceError::Weak)),
                "{different_bytes}"
            );
        }
        assert!(key_with(8).is_ok());
    }

    #[test]
    fn key_does_not_unwrap_with_another_root_key() {
        let root_key = |bytes: std::ops::Range<u8>| {
            RootKey::from_text(&STANDARD.encode(bytes.collect::<Vec<_>>())).unwrap()
        };
        let (root, other_root) = (root_key(0..32), root_key(32..64));
        let place = Place::new("test");
        let wrapped = root.wrap(&place, &Secret::new(vec![7; 32])).unwrap();
        assert_eq!(root.unwrap(&place, &wrapped).unwrap().expose(), [7; 32]);
        assert!(matches!(other_root.unwrap(&place, &wrapped), Err(KeySourceError::Foreign(_))));
    }
}
