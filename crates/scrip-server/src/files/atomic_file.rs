//! Atomic file replacement: write and sync a temporary file in the same directory, rename it, and
//! sync the directory, because the name is an entry of the directory.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::libc;

/// Returns the path with a suffix appended to its name.
pub fn path_with_suffix(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the parent directory. For a name without a directory, returns the current directory.
pub fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs a directory, so that a rename in it survives a power failure.
/// Errors: the directory cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Replaces a file with new content, readable by its owner only. Removes the temporary file on
/// failure.
/// Errors: the directory cannot be written; the old file is unchanged.
pub fn replace(
    target: &Path,
    temporary: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    let write_result = write(&mut file).and_then(|()| file.sync_all());
    let result = write_result.and_then(|()| fs::rename(temporary, target));
    if result.is_err() {
        drop(fs::remove_file(temporary));
    }
    result?;
    sync_folder(folder_of(target))
}

/// Whether a temporary file that was not renamed is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    Remove,
    /// The next run continues with it, unless it is empty.
    Keep,
}

/// A large file that is written under a temporary name, readable by its owner only and locked. A
/// temporary file of a killed process is reused, so at most one exists.
#[derive(Debug)]
pub struct AtomicFile {
    pub path: PathBuf,
    pub file: File,
    /// `None` after the file was renamed.
    on_failure: Option<OnFailure>,
}

impl AtomicFile {
    /// Creates and locks the temporary file of `target`. Errors name the kind of file, `purpose`.
    /// Errors: the file cannot be created, or another process is writing it.
    pub fn open(target: &Path, purpose: &str, on_failure: OnFailure) -> anyhow::Result<Self> {
        let path = path_with_suffix(target, ".tmp");
        let name = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // In a directory that others can write, the name could be a symbolic link.
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = file.with_context(|| format!("{name} cannot be created"))?;
        if file.try_lock().is_err() {
            bail!("another {purpose} is being written to {name}");
        }
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Self { path, file, on_failure: Some(on_failure) })
    }

    /// Renames the synced file and syncs the directory.
    /// Errors: the directory cannot be written.
    pub fn rename_into_place(mut self, target: &Path, folder: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.on_failure = None;
        sync_folder(folder)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let is_empty = || self.file.metadata().is_ok_and(|it| it.len() == 0);
        let is_removed = match self.on_failure {
            Some(OnFailure::Remove) => true,
            Some(OnFailure::Keep) => is_empty(),
            None => false,
        };
        if is_removed {
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn failed_replace_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let (target, temporary) = (folder.path().join("a"), folder.path().join("a.tmp"));
        replace(&target, &temporary, |file| file.write_all(b"one")).unwrap();
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        let result = replace(&target, &temporary, |file| {
            file.write_all(b"two")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(result.is_err() && !temporary.exists());
        assert_eq!(fs::read(&target).unwrap(), b"one");
    }

    #[test]
    fn temporary_file_is_locked_and_removed_unless_kept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let file = AtomicFile::open(&target, "backup", OnFailure::Remove).unwrap();
        let error = AtomicFile::open(&target, "backup", OnFailure::Remove).unwrap_err().to_string();
        assert!(error.starts_with("another backup is being written to "), "{error}");
        let path = file.path.clone();
        drop(file);
        assert!(!path.exists());
        drop(AtomicFile::open(&target, "export", OnFailure::Keep).unwrap());
        assert!(!path.exists(), "an empty file has nothing to continue with");
        let mut file = AtomicFile::open(&target, "export", OnFailure::Keep).unwrap();
        file.file.write_all(b"one").unwrap();
        drop(file);
        assert!(path.exists());
        let file = AtomicFile::open(&target, "export", OnFailure::Remove).unwrap();
        file.rename_into_place(&target, folder.path()).unwrap();
        assert!(target.exists() && !path.exists());
    }
}
