//! A source that wraps keys: a trait, so that a hardware key can implement it too.

use std::{fmt, io};

use thiserror::Error;

use crate::{OpenError, Place, Sealed, Secret};

/// Wraps the keys below the root key. The wrapping key is never stored in the clear with the
/// wrapped keys.
pub trait KeySource: Send + Sync {
    /// Errors: the source is unavailable.
    fn wrap(&self, place: &Place, key: &Secret) -> Result<Sealed, KeySourceError>;

    /// Errors: the source is unavailable, or another source wrapped this key.
    fn unwrap(&self, place: &Place, wrapped: &Sealed) -> Result<Secret, KeySourceError>;
}

#[derive(Debug, Error)]
pub enum KeySourceError {
    #[error("the root key is not base64 of 32 bytes: it is empty, truncated or not a root key")]
    Malformed,
    #[error(
        "the root key is not random: it has fewer than {DISTINCT_BYTES_MIN} different bytes. An existing \
         vault needs its own root key: install a copy of it. For a new vault create one with scrip init, \
         or with: head -c 32 /dev/urandom | base64"
    )]
    Weak,
    #[error("the root key file is readable by others; run chmod 600 on it")]
    Exposed,
    /// The caller adds the path of the file.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("this is the root key of another vault, or the stored keys of this vault were altered")]
    Foreign(#[from] OpenError),
    #[error("the vault is sealed")]
    VaultSealed,
}

/// 32 random bytes practically never have fewer than 8 different values. Such a key was typed by
/// hand or is all zeros.
pub(crate) const DISTINCT_BYTES_MIN: usize = 8;

impl fmt::Debug for dyn KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}
