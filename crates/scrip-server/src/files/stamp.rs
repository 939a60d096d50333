//! Detects that a file was replaced or changed.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::Path,
};

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
