//! The free space of a file system.

use std::{io, path::Path};

use nix::sys::statvfs::statvfs;

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
