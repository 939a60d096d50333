//! The stored form of a sealed value.
//!
//! ```text
//! format 1 | algorithm 1 | key version 4 | salt 32 | ciphertext … | tag 16
//! ```

use thiserror::Error;

use crate::FORMAT_VERSION;

/// AES-256-GCM with a key from HKDF-SHA-256(key, salt). Each derived key is used once, so the nonce
/// is constant.
pub(crate) const AES_256_GCM: u8 = 1;
pub(crate) const SALT_LEN: usize = 32;
pub(crate) const TAG_LEN: usize = 16;
pub(crate) const HEADER_LEN: usize = 1 + 1 + 4 + SALT_LEN;

/// Encrypted bytes that only this crate can open. Safe to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

/// Why a value could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OpenError {
    #[error("the sealed bytes are too short or of an unknown format")]
    Malformed,
    #[error("the key that sealed this value is missing")]
    KeyMissing,
    #[error("the key that sealed this value is newer than the loaded keys")]
    KeyNotLoaded,
    #[error("the sealed bytes were altered, or belong to another place")]
    Altered,
}

/// A borrowed view of the parts.
pub(crate) struct SealedParts<'a> {
    pub key_version: u32,
    pub salt: &'a [u8; SALT_LEN],
    /// Format, algorithm and key version, which are authenticated too.
    pub header: &'a [u8],
    pub ciphertext_and_tag: &'a [u8],
}

impl Sealed {
    pub fn from_stored(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The position of the key version in the bytes, for engines that count values by version
    /// without reading them completely.
    pub const KEY_VERSION_OFFSET: usize = 2;
    pub const KEY_VERSION_BYTES: usize = 4;

    /// The version of the key that sealed this value. Key rotation counts values by it.
    /// Errors: the bytes are not a sealed value.
    pub fn key_version(&self) -> Result<u32, OpenError> {
        Ok(self.parts()?.key_version)
    }

    pub(crate) fn parts(&self) -> Result<SealedParts<'_>, OpenError> {
        let (header, ciphertext_and_tag) =
            self.0.split_at_checked(HEADER_LEN).ok_or(OpenError::Malformed)?;
        let (fixed, salt) = header.split_at_checked(6).ok_or(OpenError::Malformed)?;
        let &[FORMAT_VERSION, AES_256_GCM, a, b, c, d] = fixed else {
            return Err(OpenError::Malformed);
        };
        let salt = salt.try_into().map_err(|_| OpenError::Malformed)?;
        if ciphertext_and_tag.len() < TAG_LEN {
            return Err(OpenError::Malformed);
        }
        let key_version = u32::from_be_bytes([a, b, c, d]);
        Ok(SealedParts { key_version, salt, header: fixed, ciphertext_and_tag })
    }
}
