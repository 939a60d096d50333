//! A file with a key or a password, which must not be accessible to other users.

use std::{
    fmt::Display,
    fs::{self, Metadata},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::unistd::Uid;

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
        let (path, name) = (&self.path, self.path.display());
        let Ok(link) = fs::symlink_metadata(path) else { return Ok(()) };
        let is_trusted = |it: &Metadata| [0, user].contains(&it.uid());
        if link.file_type().is_symlink() && !is_trusted(&link) {
            bail!(
                "{name} is a symbolic link that belongs to user {owner}, who could change its \
                 target; {}",
                owner_advice(user, "chown -h", &name),
                owner = link.uid(),
            );
        }
        let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
        // Devices such as /dev/null contain no secret.
        if metadata.file_type().is_char_device() {
            return Ok(());
        }
        if !metadata.is_file() {
            bail!("{name} is not a regular file");
        }
        if !is_trusted(&metadata) {
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
                assert!(error.contains("belongs to user 4242"), "{error}");
                assert!(error.contains("run scrip as the user of the server"), "{error}");
                assert!(!error.contains("chown 0") && !error.contains("chown -h 0"), "{error}");
            }
        }
    }

    #[test]
    fn missing_file_passes_the_check() {
        let folder = tempfile::tempdir().unwrap();
        assert!(secret(&folder.path().join("none"), AllowedReaders::Owner).check().is_ok());
    }
}
