//! The epoch key file, which keeps CVCs readable across a restart.
//!
//! ```text
//! "scrip epoch 1\n" | ends 8, version 4, key 32 | …
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Seek, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use thiserror::Error;
use zeroize::Zeroizing;

use crate::Secret;

const HEADER: &[u8] = b"scrip epoch 1\n";
const ENTRY_LEN: usize = 8 + 4 + 32;

/// Why the epoch key file cannot be used.
#[derive(Debug, Error)]
pub enum EpochFileError {
    #[error("the epoch key file is damaged; remove it (stored CVCs become unreadable)")]
    Damaged,
    #[error("the epoch key file is readable by others or is not a regular file; remove it")]
    Exposed,
    #[error("the epoch key file is locked by another process")]
    InUse,
    #[error("cannot use the epoch key file: {0}")]
    Io(#[from] io::Error),
}

pub(super) struct KeyFile {
    path: PathBuf,
    temp_path: PathBuf,
    /// Prevents two processes from overwriting each other's keys.
    _lock: File,
}

impl KeyFile {
    pub(super) fn lock(path: &Path) -> Result<Self, EpochFileError> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.with_extension("lock"))?;
        lock.try_lock().map_err(|_| EpochFileError::InUse)?;
        Ok(Self { path: path.to_owned(), temp_path: path.with_extension("tmp"), _lock: lock })
    }

    /// The end of each epoch, the key version and the key. Empty if the file is missing or was
    /// wiped.
    pub(super) fn load(&self) -> Result<Vec<(i64, u32, Secret)>, EpochFileError> {
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
            Ok(it) if !it.is_file() || it.permissions().mode() & 0o077 != 0 => {
                return Err(EpochFileError::Exposed);
            }
            Ok(_) => (),
        }
        let bytes = Zeroizing::new(fs::read(&self.path)?);
        if bytes.iter().all(|it| *it == 0) {
            return Ok(Vec::new());
        }
        let entries = bytes.strip_prefix(HEADER).ok_or(EpochFileError::Damaged)?;
        let (entries, incomplete_entry) = entries.as_chunks::<ENTRY_LEN>();
        if !incomplete_entry.is_empty() {
            return Err(EpochFileError::Damaged);
        }
        entries.iter().map(|it| parse_entry(it).ok_or(EpochFileError::Damaged)).collect()
    }

    /// Replaces the file atomically and overwrites the content of the old file.
    pub(super) fn save<'a>(
        &self,
        keys: impl Iterator<Item = (i64, u32, &'a Secret)>,
    ) -> Result<(), EpochFileError> {
        // Large enough for one day of the shortest epochs: a buffer that grows leaves copies in
        // memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(128 * 1024));
        bytes.extend_from_slice(HEADER);
        for (ends_ms, version, key) in keys {
            bytes.extend_from_slice(&ends_ms.to_be_bytes());
            bytes.extend_from_slice(&version.to_be_bytes());
            bytes.extend_from_slice(key.expose());
        }
        let old_file = OpenOptions::new().write(true).open(&self.path);
        let result = self.replace(&bytes);
        match old_file {
            Ok(old_file) => wipe(old_file)?,
            Err(error) if error.kind() == ErrorKind::NotFound => (),
            Err(error) => return Err(error.into()),
        }
        Ok(result?)
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut temp_file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&self.temp_path)?;
        temp_file.write_all(bytes)?;
        // The temporary file may remain from an earlier run, with another mode.
        temp_file.set_permissions(fs::Permissions::from_mode(0o600))?;
        fs::rename(&self.temp_path, &self.path)
    }
}

fn parse_entry(bytes: &[u8; ENTRY_LEN]) -> Option<(i64, u32, Secret)> {
    let (ends_ms, version_and_key) = bytes.split_first_chunk::<8>()?;
    let (version, key) = version_and_key.split_first_chunk::<4>()?;
    Some((i64::from_be_bytes(*ends_ms), u32::from_be_bytes(*version), Secret::new(key.to_vec())))
}

fn wipe(mut file: File) -> io::Result<()> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or_default();
    file.rewind()?;
    file.write_all(&vec![0; length])
}
