//! Checks before a start whether the control sockets can be created.

use std::{
    fs,
    os::unix::net::{SocketAddr, UnixListener},
    path::Path,
};

use anyhow::{Context, bail};

use crate::{
    config::Settings,
    control::{
        protocol::SOCKET_FILE,
        shared_socket::{check_folder, find_group},
    },
};

/// Checks the socket in the data directory.
/// Errors: the path is too long, or this user cannot create a socket in the directory.
pub fn check_private(settings: &Settings) -> anyhow::Result<()> {
    let path = settings.storage.data_dir.join(SOCKET_FILE);
    check_length(&path).context("use a shorter storage.data_dir")?;
    create_probe(&path)
}

/// Checks the socket of the operators' group. The membership of the group is not checked: the service
/// manager can add groups.
///
/// Errors: as for [`check_private`]; or the group does not exist, or others can write to the
/// directory.
pub fn check_shared(path: &Path, group: &str) -> anyhow::Result<()> {
    check_length(path).context("use a shorter path")?;
    find_group(group)?;
    check_folder(path)?;
    create_probe(path)
}

/// The operating system limits the length of the path.
fn check_length(path: &Path) -> anyhow::Result<()> {
    if SocketAddr::from_pathname(path).is_err() {
        bail!(
            "the path {} has {} bytes, and the operating system allows about 100",
            path.display(),
            path.as_os_str().len()
        );
    }
    Ok(())
}

/// Creates a socket beside the path, and removes it.
fn create_probe(path: &Path) -> anyhow::Result<()> {
    let probe = path.with_extension("chk");
    // The rest of an interrupted check.
    drop(fs::remove_file(&probe));
    let listener = UnixListener::bind(&probe);
    drop(fs::remove_file(&probe));
    listener.map(drop).with_context(|| {
        let folder = path.parent().unwrap_or(path).display();
        format!(
            "{} cannot be created; check that {folder} exists and that the server's user can write \
             to it",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_that_cannot_be_created_is_reported_with_its_cause() {
        let folder = tempfile::tempdir().unwrap();
        let check = |path: &Path| check_length(path).and_then(|()| create_probe(path));
        let path = folder.path().join("scrip.sock");
        check(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the probe is removed");
        let rows = [
            (folder.path().join("missing/scrip.sock"), "missing exists and that"),
            (folder.path().join("x".repeat(120)), "the operating system allows about 100"),
            // No user can create a file there, not even root.
            ("/proc/scrip.sock".into(), "/proc/scrip.sock cannot be created"),
        ];
        for (path, expected) in rows {
            let error = format!("{:#}", check(&path).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn shared_socket_needs_an_existing_group_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        check_shared(&path, "0").unwrap();
        let error = check_shared(&path, "no such group").unwrap_err();
        assert!(format!("{error:#}").contains("group no such group does not exist"), "{error:#}");
        let error = check_shared(&folder.path().join("missing/control.sock"), "0").unwrap_err();
        assert!(format!("{error:#}").contains("missing cannot be read"), "{error:#}");
    }
}
