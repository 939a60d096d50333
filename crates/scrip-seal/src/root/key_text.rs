//! The text form of a key of 32 bytes: base64, in a file that only its owner can read.

use std::{
    collections::HashSet,
    fs,
    io::{Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

use crate::{KeySourceError, Secret, random::random_bytes, root::key_source::DISTINCT_BYTES_MIN};

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
