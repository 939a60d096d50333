//! Files in the data directory and in other configured locations.

pub mod atomic_file;
pub mod bin_file;
pub mod head_file;
pub mod secret_file;

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::Path,
};

use anyhow::Context;
use nix::sys::statvfs::statvfs;

/// Creates the directory for its owner only. Returns whether it was created.
/// Errors: the directory cannot be created.
pub fn create_folder(folder: &Path) -> anyhow::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    result.with_context(|| format!("{} cannot be created", folder.display()))?;
    Ok(true)
}

/// Detects that a file was replaced or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// A changed mode can make a refused file acceptable.
    mode: u32,
}

impl FileStamp {
    pub(crate) fn for_path(path: &Path) -> Option<Self> {
        let from_metadata = |it: Metadata| Self {
            inode: it.ino(),
            bytes: it.len(),
            modified: (it.mtime(), it.mtime_nsec()),
            mode: it.mode(),
        };
        fs::metadata(path).ok().map(from_metadata)
    }
}

/// The size of a file system, and the part that this process may still use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    pub free_bytes: u64,
    pub size_bytes: u64,
}

impl DiskSpace {
    /// Reads the file system of a directory.
    /// Errors: the directory cannot be inspected.
    #[expect(clippy::useless_conversion, reason = "the width of these types differs by system")]
    pub fn read(folder: &Path) -> io::Result<Self> {
        let it = statvfs(folder)?;
        let block = u64::from(it.fragment_size());
        Ok(Self {
            free_bytes: u64::from(it.blocks_available()).saturating_mul(block),
            size_bytes: u64::from(it.blocks()).saturating_mul(block),
        })
    }
}
