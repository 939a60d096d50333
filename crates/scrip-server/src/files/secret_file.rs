//! A file with a key or a password, which must not be accessible to other users.

use std::{
    fmt::Display,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::{fcntl::readlinkat, libc, unistd::Uid};
use zeroize::Zeroizing;

/// The longest chain of links to a file with a key.
const LINKS_MAX: usize = 8;
/// Only the start of a larger file, such as a database, is read into memory.
const KEY_FILE_BYTES_MAX: u64 = 1024;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedReaders {
    Owner,
    /// Secrets mounted by an orchestrator belong to root and are readable by a group.
    OwnerAndGroup,
}

impl AllowedReaders {
    fn forbidden_mode_bits(self) -> u32 {
        match self {
            Self::Owner => 0o077,
            Self::OwnerAndGroup => 0o037,
        }
    }
}

/// A file with a secret, and the setting with its path.
#[derive(Debug)]
pub struct SecretFile {
    pub(crate) setting: String,
    pub path: PathBuf,
    pub(crate) readers: AllowedReaders,
}

impl SecretFile {
    pub(crate) fn new(setting: &str, path: &Path, readers: AllowedReaders) -> Self {
        Self { setting: setting.to_owned(), path: path.to_owned(), readers }
    }

    /// Errors: another user can read or replace the file. A missing file is not an error here; its
    /// reader reports it.
    pub fn check(&self) -> anyhow::Result<()> {
        self.check_for(Uid::effective().as_raw()).with_context(|| self.setting.clone())
    }

    fn check_for(&self, user: u32) -> anyhow::Result<()> {
        let Ok(link) = fs::symlink_metadata(&self.path) else { return Ok(()) };
        if link.file_type().is_symlink() {
            check_link(&self.path, &link, user)?;
        }
        let Ok(metadata) = fs::metadata(&self.path) else { return Ok(()) };
        // Devices such as /dev/null contain no secret.
        if metadata.file_type().is_char_device() {
            return Ok(());
        }
        self.check_file(&metadata, user)
    }

    fn check_file(&self, metadata: &Metadata, user: u32) -> anyhow::Result<()> {
        let name = self.path.display();
        if !metadata.is_file() {
            bail!("{name} is not a regular file");
        }
        if !is_trusted(metadata, user) {
            let advice = owner_advice(user, "chown", &name);
            bail!("{name} belongs to user {}; {advice}", metadata.uid());
        }
        let mode = metadata.mode() & 0o777;
        if mode & self.readers.forbidden_mode_bits() != 0 {
            let fix = match self.readers {
                AllowedReaders::Owner => "600",
                AllowedReaders::OwnerAndGroup => "640",
            };
            bail!("{name} is accessible to other users (mode {mode:o}); run: chmod {fix} {name}");
        }
        Ok(())
    }

    /// Reads a short text. Never waits for a pipe. The checks and the text are of one opened file,
    /// so that another user cannot exchange the file between them.
    /// Errors: another user can read or replace the file, it is not a regular file, or it cannot be
    /// read.
    pub(crate) fn read_key(&self) -> Result<Zeroizing<String>, SecretFileError> {
        self.read_key_for(Uid::effective().as_raw())
    }

    fn read_key_for(&self, user: u32) -> Result<Zeroizing<String>, SecretFileError> {
        let mut path = self.path.clone();
        for _ in 0..=LINKS_MAX {
            let (file, opened) = match open_file(&path, libc::O_NONBLOCK) {
                Ok(file) => (file, Ok(())),
                // This also opens a link and a file that this user cannot read.
                Err(cause) => (open_file(&path, libc::O_PATH)?, Err(cause)),
            };
            let metadata = file.metadata()?;
            let owner = Some(metadata.uid());
            let rejected =
                |cause| SecretFileError { owner, cause: SecretFileCause::Rejected(cause) };
            if metadata.file_type().is_symlink() {
                check_link(&path, &metadata, user).map_err(rejected)?;
                let target = PathBuf::from(readlinkat(&file, "").map_err(io::Error::from)?);
                path = path.parent().map_or_else(|| target.clone(), |it| it.join(&target));
                continue;
            }
            self.check_file(&metadata, user).map_err(rejected)?;
            let unreadable =
                |cause| SecretFileError { owner, cause: SecretFileCause::Unreadable(cause) };
            opened.map_err(unreadable)?;
            let capacity = usize::try_from(KEY_FILE_BYTES_MAX).unwrap_or_default();
            let mut text = Zeroizing::new(String::with_capacity(capacity));
            file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
            return Ok(text);
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP).into())
    }
}

/// Opens a file without following a link, and without waiting for the writer of a pipe.
fn open_file(path: &Path, flag: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flag | libc::O_NOFOLLOW).open(path)
}

/// Why a file with a key cannot be used.
#[derive(Debug)]
pub(crate) struct SecretFileError {
    /// The owner of the file to which the cause belongs; `None` if no file was opened.
    pub(crate) owner: Option<u32>,
    pub(crate) cause: SecretFileCause,
}

#[derive(Debug)]
pub(crate) enum SecretFileCause {
    /// Another user can read or replace the file, or it is not a regular file.
    Rejected(anyhow::Error),
    Unreadable(io::Error),
}

impl From<io::Error> for SecretFileError {
    fn from(error: io::Error) -> Self {
        Self { owner: None, cause: SecretFileCause::Unreadable(error) }
    }
}

fn is_trusted(metadata: &Metadata, user: u32) -> bool {
    [0, user].contains(&metadata.uid())
}

fn check_link(path: &Path, link: &Metadata, user: u32) -> anyhow::Result<()> {
    if is_trusted(link, user) {
        return Ok(());
    }
    let name = path.display();
    bail!(
        "{name} is a symbolic link that belongs to user {owner}, who could change its target; {}",
        owner_advice(user, "chown -h", &name),
        owner = link.uid(),
    );
}

/// A command may run as another user than the server, usually as root. A file of that user would
/// seal the next start of the server, so root gets no command that changes the owner to root.
fn owner_advice(user: u32, command: &str, name: &dyn Display) -> String {
    let advice = "run scrip as the user of the server";
    match user {
        0 => format!(
            "{advice}. If the server runs as another user, give the file to the user of the server \
             with {command}"
        ),
        _ => format!("{advice}. If that is user {user}, run: {command} {user} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    fn secret(path: &Path, readers: AllowedReaders) -> SecretFile {
        SecretFile::new("tls.key", path, readers)
    }

    #[test]
    fn file_readable_or_writable_by_others_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        fs::write(&path, "secret").unwrap();
        let user = Uid::effective().as_raw();
        let cases = [
            (0o600, true, true),
            (0o400, true, true),
            (0o640, false, true),
            (0o660, false, false),
            (0o604, false, false),
            (0o644, false, false),
            (0o602, false, false),
            (0o777, false, false),
        ];
        for (mode, owner, group) in cases {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let is_accepted = |readers| secret(&path, readers).check_for(user).is_ok();
            assert_eq!(is_accepted(AllowedReaders::Owner), owner, "{mode:o}");
            assert_eq!(is_accepted(AllowedReaders::OwnerAndGroup), group, "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error =
            format!("{:#}", secret(&path, AllowedReaders::OwnerAndGroup).check().unwrap_err());
        let fix = format!("(mode 644); run: chmod 640 {}", path.display());
        assert!(error.starts_with("tls.key: ") && error.ends_with(&fix), "{error}");
    }

    #[test]
    fn file_or_link_owned_by_another_user_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("key.pem"), folder.path().join("link.pem"));
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        symlink(&path, &link).unwrap();
        let user = Uid::effective().as_raw();
        for path in [&path, &link] {
            assert!(secret(path, AllowedReaders::Owner).check_for(user).is_ok());
        }
        // Files of root are always trusted, so only root can test the rejection.
        if user == 0 {
            for path in [&path, &link] {
                nix::unistd::fchownat(
                    nix::fcntl::AT_FDCWD,
                    path,
                    Some(Uid::from_raw(4242)),
                    None,
                    nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW,
                )
                .unwrap();
            }
            let check_error = |path: &Path| {
                format!("{:#}", secret(path, AllowedReaders::Owner).check_for(0).unwrap_err())
            };
            // Root is rarely the user of the server, which could not read a file of root.
            for path in [&path, &link] {
                let error = check_error(path);
                let read = secret(path, AllowedReaders::Owner).read_key_for(0).unwrap_err();
                assert_eq!(read.owner, Some(4242), "the owner of the opened file");
                let SecretFileCause::Rejected(cause) = &read.cause else { panic!("{read:?}") };
                assert_eq!(format!("{cause:#}"), error);
                assert!(error.contains("belongs to user 4242"), "{error}");
                assert!(error.contains("run scrip as the user of the server"), "{error}");
                assert!(!error.contains("chown 0") && !error.contains("chown -h 0"), "{error}");
            }
        }
    }

    /// A secret volume of Kubernetes has links of this form.
    #[test]
    fn key_behind_links_of_the_user_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("..2026")).unwrap();
        fs::write(at("..2026/root.key"), "secret").unwrap();
        fs::set_permissions(at("..2026/root.key"), Permissions::from_mode(0o600)).unwrap();
        symlink("..2026", at("..data")).unwrap();
        symlink("..data/root.key", at("root.key")).unwrap();
        let text = secret(&at("root.key"), AllowedReaders::Owner).read_key().unwrap();
        assert_eq!(text.as_str(), "secret");
        symlink("loop", at("loop")).unwrap();
        let error = secret(&at("loop"), AllowedReaders::Owner).read_key().unwrap_err();
        assert!(matches!(error.cause, SecretFileCause::Unreadable(_)), "{error:?}");
    }

    #[test]
    fn pipe_device_and_directory_are_rejected_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let error = secret(path, AllowedReaders::Owner).read_key().unwrap_err();
            let SecretFileCause::Rejected(cause) = error.cause else { panic!("{error:?}") };
            assert!(cause.to_string().ends_with("is not a regular file"), "{cause}");
        }
    }

    /// Another thread exchanges a link and a directory, so that the path names a key and a pipe in
    /// turns. Each answer is one of these two, and none waits.
    #[test]
    fn path_that_alternates_between_a_key_and_a_pipe_does_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["keys", "other"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("keys/root.key"), "secret").unwrap();
        fs::set_permissions(at("keys/root.key"), Permissions::from_mode(0o600)).unwrap();
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
        nix::unistd::mkfifo(&at("other/root.key"), mode).unwrap();
        symlink(at("keys"), at("link")).unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let (link, other) = (at("link"), at("other"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    nix::fcntl::renameat2(
                        nix::fcntl::AT_FDCWD,
                        &link,
                        nix::fcntl::AT_FDCWD,
                        &other,
                        nix::fcntl::RenameFlags::RENAME_EXCHANGE,
                    )
                    .unwrap();
                }
            });
            let file = secret(&link.join("root.key"), AllowedReaders::Owner);
            for _ in 0..20_000 {
                match file.read_key() {
                    Ok(text) => assert_eq!(text.as_str(), "secret"),
                    Err(error) => {
                        let SecretFileCause::Rejected(cause) = error.cause else {
                            panic!("{error:?}")
                        };
                        assert!(cause.to_string().ends_with("is not a regular file"), "{cause}");
                    }
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn missing_file_passes_the_check() {
        let folder = tempfile::tempdir().unwrap();
        assert!(secret(&folder.path().join("none"), AllowedReaders::Owner).check().is_ok());
    }
}
