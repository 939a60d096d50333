//! The file with the new API keys after a compromise of the vault key.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use scrip_server::{
    files::atomic_file::{folder_of, sync_folder},
    unlock::compromise::NewKey,
};

/// A new file that only its owner can read. It is removed unless the rotation may have happened.
#[derive(Debug)]
pub(super) struct NewKeysFile {
    path: PathBuf,
    file: File,
    count: usize,
    is_kept: bool,
}

impl NewKeysFile {
    /// Errors: the file exists or cannot be created.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| {
            format!("{} cannot be created; nothing was rotated", path.display())
        })?;
        Ok(Self { path: path.to_owned(), file, count: 0, is_kept: false })
    }

    /// Writes one line for each key. The lines are on disk when the function returns.
    /// Errors: the file cannot be written.
    pub(super) fn write(&mut self, keys: &[NewKey], key_version: u32) -> anyhow::Result<()> {
        let error_context =
            || format!("{} cannot be written; nothing was rotated", self.path.display());
        let header = format!(
            "# Keys that are valid with version {key_version} of the vault key.\n\
             # kind\ttenant\tapplication\tid\tkey\n"
        );
        let written = self.file.write_all(header.as_bytes()).and_then(|()| {
            keys.iter().try_for_each(|it| self.file.write_all(it.line().as_bytes()))
        });
        let synced = written.and_then(|()| self.file.sync_all());
        synced.and_then(|()| sync_folder(folder_of(&self.path))).with_context(error_context)?;
        self.count = keys.len();
        Ok(())
    }

    /// Checks that the path still leads to the written file. The old keys end with the rotation.
    /// Errors: the file was moved, removed or replaced.
    pub(super) fn check_present(&self) -> anyhow::Result<()> {
        let identity = |it: fs::Metadata| (it.dev(), it.ino(), it.len());
        let written = self.file.metadata().map(identity)?;
        match fs::symlink_metadata(&self.path).map(identity) {
            Ok(present) if present == written => Ok(()),
            Ok(_) | Err(_) => {
                bail!("{} was moved, removed or replaced; nothing was rotated", self.path.display())
            }
        }
    }

    /// Leaves the file in place: its keys may be valid.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Drop for NewKeysFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The keys in it are not valid.
            drop(fs::remove_file(&self.path));
        }
    }
}
