//! A source that wraps keys: a trait, so that a hardware key can implement it too. And the text form of a
//! key of 32 bytes: base64, in a file that only its owner can read.

use std::{
    collections::HashSet,
    fmt, fs,
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{OpenError, Place, Sealed, Secret, random::random_bytes};

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
    #[error(
        "it is not a key, which is base64 of 32 bytes: it is empty, truncated or something else"
    )]
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

pub(crate) const KEY_BYTES: usize = 32;

/// Errors: the text is not the base64 of 32 bytes, or they are not random.
pub(crate) fn parse_key(text: &str) -> Result<Secret, KeySourceError> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| KeySourceError::Malformed)?;
    let key = Secret::new(bytes);
    if key.expose().len() != KEY_BYTES {
        return Err(KeySourceError::Malformed);
    }
    if key.expose().iter().collect::<HashSet<_>>().len() < DISTINCT_BYTES_MIN {
        return Err(KeySourceError::Weak);
    }
    Ok(key)
}

/// Errors: the file is missing, malformed, or readable by others.
pub(crate) fn read_key_file(path: &Path) -> Result<Secret, KeySourceError> {
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        return Err(KeySourceError::Exposed);
    }
    // Only the start of a larger file, such as a database, is read into memory.
    let mut text = Zeroizing::new(String::with_capacity(1024));
    fs::File::open(path)?.take(1024).read_to_string(&mut text)?;
    parse_key(&text)
}

/// Writes a new random key to a file that only its owner can read. Never changes an existing file.
/// Errors: the file exists or cannot be written.
pub(crate) fn create_key_file(path: &Path) -> Result<(), KeySourceError> {
    let key = Zeroizing::new(random_bytes::<KEY_BYTES>());
    let text = Zeroizing::new(STANDARD.encode(key.as_ref()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", text.as_str())?;
    file.sync_all()?;
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}
