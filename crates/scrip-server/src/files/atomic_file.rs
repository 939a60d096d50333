//! Files that are there whole or not at all: a draft beside the place is written, synced and renamed,
//! and then the folder is synced, because a name is an entry of its folder.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::libc;

/// The place with something behind its name.
#[must_use]
pub fn path_with_suffix(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder of a file; of a bare name, the current one.
#[must_use]
pub fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Puts a new file in the place, for its owner only. The draft is gone when this fails.
///
/// # Errors
/// The folder cannot be written; the old file is as it was.
pub fn replace(
    target: &Path,
    temporary: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
    let written = write(&mut file).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| fs::rename(temporary, target));
    if placed.is_err() {
        drop(fs::remove_file(temporary));
    }
    placed?;
    sync_folder(folder_of(target))
}

/// What becomes of a draft that is not put in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    Remove,
    /// The next run goes on with it.
    Keep,
}

/// A large file until it is whole: beside its place, for its owner only, and locked. One that a
/// killed process left is used again, so at most one is ever left.
#[derive(Debug)]
pub struct AtomicFile {
    pub path: PathBuf,
    pub file: File,
    removes_on_drop: bool,
}

impl AtomicFile {
    /// # Errors
    /// It cannot be made, or another process writes it; `what` names what that would be.
    pub fn open(target: &Path, purpose: &str, on_failure: OnFailure) -> anyhow::Result<Self> {
        let path = path_with_suffix(target, ".draft");
        let name = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // Where others can write too, the name may be a link of theirs.
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = file.with_context(|| format!("{name} cannot be made"))?;
        if file.try_lock().is_err() {
            bail!("another {purpose} is being written to {name}");
        }
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Self { path, file, removes_on_drop: on_failure == OnFailure::Remove })
    }

    /// It is synced already; its name is, when this is over.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn rename_into_place(mut self, target: &Path, folder: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.removes_on_drop = false;
        sync_folder(folder)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.removes_on_drop {
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
        let (place, draft) = (folder.path().join("a"), folder.path().join("a.draft"));
        replace(&place, &draft, |file| file.write_all(b"one")).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
        let problems = replace(&place, &draft, |file| {
            file.write_all(b"two")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(problems.is_err() && !draft.exists());
        assert_eq!(fs::read(&place).unwrap(), b"one");
    }

    #[test]
    fn temporary_file_is_locked_and_removed_unless_kept() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a");
        let draft = AtomicFile::open(&place, "backup", OnFailure::Remove).unwrap();
        let second = AtomicFile::open(&place, "backup", OnFailure::Remove).unwrap_err().to_string();
        assert!(second.starts_with("another backup is being written to "), "{second}");
        let path = draft.path.clone();
        drop(draft);
        assert!(!path.exists());
        drop(AtomicFile::open(&place, "export", OnFailure::Keep).unwrap());
        assert!(path.exists());
        let draft = AtomicFile::open(&place, "export", OnFailure::Remove).unwrap();
        draft.rename_into_place(&place, folder.path()).unwrap();
        assert!(place.exists() && !path.exists());
    }
}
