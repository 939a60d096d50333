//! Checks before a start whether the control sockets can be created.

use std::{
    fs,
    os::unix::{
        fs::MetadataExt,
        net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use nix::unistd::{Gid, Uid};

use crate::{
    config::Settings,
    control::{
        protocol::SOCKET_FILE,
        shared_socket::{check_folder, find_group},
        status::query_status,
    },
};

/// The user of the server, as far as a command can find out.
#[derive(Debug)]
pub struct ServerAccount {
    uid: Uid,
    /// `None` if they are unknown.
    groups: Option<Vec<Gid>>,
}

impl ServerAccount {
    /// Call this after the command has switched to the user of the settings. Without one, root
    /// assumes that the server runs as the owner of the data directory.
    ///
    /// Returns `None` for another user: what such a user can create says nothing about the server.
    pub fn find(settings: &Settings) -> Option<Self> {
        let own = Uid::effective();
        let owner = match &settings.server.user {
            Some(_) => None,
            None => fs::metadata(&settings.storage.data_dir).ok().map(|it| it.uid()),
        };
        let uid = owner.map_or(own, Uid::from_raw);
        if uid != own && !own.is_root() {
            return None;
        }
        Some(Self { uid, groups: running_groups(settings, uid).or_else(|| list_groups(uid)) })
    }

    /// Errors: the user is not a member of the group, so the server cannot give a file to it.
    fn check_member(&self, group: Gid, name: &str) -> anyhow::Result<()> {
        // Root can give a file to every group.
        let is_member =
            self.uid.is_root() || self.groups.as_ref().is_none_or(|it| it.contains(&group));
        if !is_member {
            bail!(
                "the server's user (uid {}) is not a member of server.control_group {name}: run \
                 usermod -aG {name} with the name of this user, and restart the server",
                self.uid
            );
        }
        Ok(())
    }
}

/// The groups of the running server: the service manager may have added some, and a group that the
/// user got later needs a restart.
fn running_groups(settings: &Settings, uid: Uid) -> Option<Vec<Gid>> {
    let server = query_status(&settings.storage.data_dir)?;
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid)).ok()?;
    parse_groups(&status, uid)
}

/// Reads the groups from the status of a process. Returns `None` for a process of another user,
/// which has the number that the server has in its container.
fn parse_groups(status: &str, uid: Uid) -> Option<Vec<Gid>> {
    let numbers = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        line.split_whitespace().map(|it| it.parse().ok()).collect::<Option<Vec<u32>>>()
    };
    // The second number of these lines is the effective id.
    if numbers("Uid:")?.get(1) != Some(&uid.as_raw()) {
        return None;
    }
    let mut groups = numbers("Groups:")?;
    groups.extend(numbers("Gid:")?.get(1));
    Some(groups.into_iter().map(Gid::from_raw).collect())
}

/// The groups of a user that the system lists, and of this process if it runs as that user.
#[cfg(target_os = "linux")]
fn list_groups(uid: Uid) -> Option<Vec<Gid>> {
    use nix::unistd::{User, getgrouplist, getgroups};
    let user = User::from_uid(uid).ok().flatten();
    let listed = user.and_then(|it| {
        let name = std::ffi::CString::new(it.name).ok()?;
        getgrouplist(&name, it.gid).ok()
    });
    if uid != Uid::effective() {
        return listed;
    }
    let mut groups = getgroups().ok()?;
    groups.push(Gid::effective());
    groups.extend(listed.into_iter().flatten());
    Some(groups)
}

#[cfg(not(target_os = "linux"))]
fn list_groups(_: Uid) -> Option<Vec<Gid>> {
    None
}

/// Checks the socket in the data directory.
/// Errors: the path is too long, or this user cannot create a socket in the directory.
pub fn check_private(settings: &Settings) -> anyhow::Result<()> {
    let path = settings.storage.data_dir.join(SOCKET_FILE);
    check_length(&path).context("use a shorter storage.data_dir")?;
    create_probe(&path)
}

/// Checks the socket of the operators' group.
///
/// Errors: as for [`check_private`]; or the group does not exist, the server's user is not a member
/// of it, or others can write to the directory.
pub fn check_shared(path: &Path, group: &str, server: &ServerAccount) -> anyhow::Result<()> {
    check_length(path).context("use a shorter path")?;
    let gid = find_group(group)?;
    check_folder(path, server.uid)?;
    server.check_member(gid, group)?;
    check_owner(path, server)?;
    create_probe(path)
}

/// Root can create its probe everywhere. The server's user can write only to its own directory,
/// because only the owner may write there.
fn check_owner(path: &Path, server: &ServerAccount) -> anyhow::Result<()> {
    let folder = path.parent().context("the path has no directory")?;
    let owner = fs::metadata(folder)?.uid();
    if Uid::effective().is_root() && !server.uid.is_root() && owner != server.uid.as_raw() {
        let (uid, folder) = (server.uid, folder.display());
        bail!("the server's user (uid {uid}) cannot write to {folder}; run: chown {uid} {folder}");
    }
    Ok(())
}

/// Returns the first directory on the path that members of the group cannot enter, with its mode.
/// Errors: the group does not exist.
pub fn find_closed_folder(path: &Path, group: &str) -> anyhow::Result<Option<(PathBuf, u32)>> {
    let group = find_group(group)?.as_raw();
    let folders = path.ancestors().skip(1);
    let mut folders = folders.filter_map(|it| Some((it, fs::metadata(it).ok()?)));
    let closed = folders.find(|(_, it)| {
        // The bits of the group decide for its members, also if those of all others allow more.
        let bit = if it.gid() == group { 0o010 } else { 0o001 };
        it.mode() & bit == 0
    });
    Ok(closed.map(|(folder, it)| (folder.to_owned(), it.mode() & 0o777)))
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
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt, chown},
    };

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
        let groups = Some(vec![Gid::from_raw(0)]);
        let server = ServerAccount { uid: Uid::effective(), groups };
        check_shared(&path, "0", &server).unwrap();
        let error = check_shared(&path, "no such group", &server).unwrap_err();
        assert!(format!("{error:#}").contains("group no such group does not exist"), "{error:#}");
        let missing = folder.path().join("missing/control.sock");
        let error = check_shared(&missing, "0", &server).unwrap_err();
        assert!(format!("{error:#}").contains("missing cannot be read"), "{error:#}");
    }

    #[test]
    fn server_must_be_a_member_of_the_group() {
        let uid = Uid::from_raw(1001);
        let server = ServerAccount { uid, groups: Some(vec![Gid::from_raw(7)]) };
        server.check_member(Gid::from_raw(7), "operators").unwrap();
        let error = server.check_member(Gid::from_raw(8), "operators").unwrap_err().to_string();
        assert!(error.contains("(uid 1001) is not a member of server.control_group operators"));
        let root = ServerAccount { uid: Uid::from_raw(0), groups: Some(Vec::new()) };
        let unknown = ServerAccount { uid, groups: None };
        for server in [root, unknown] {
            server.check_member(Gid::from_raw(8), "operators").unwrap();
        }
    }

    #[test]
    fn groups_of_a_process_are_read_from_its_status() {
        let status = "Name:\tscrip\nUid:\t10\t11\t11\t11\nGid:\t20\t21\t21\t21\n\
                      Groups:\t30 31 \n";
        let groups = |uid| {
            let groups = parse_groups(status, Uid::from_raw(uid))?;
            Some(groups.into_iter().map(Gid::as_raw).collect::<Vec<_>>())
        };
        assert_eq!(groups(11), Some(vec![30, 31, 21]));
        assert_eq!(groups(10), None, "a process of another user");
        assert_eq!(parse_groups("Name:\tscrip\n", Uid::from_raw(11)), None);
    }

    #[test]
    fn root_accepts_a_directory_of_the_server_only() {
        if !Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        let [server, other] =
            [1001, 1002].map(|it| ServerAccount { uid: Uid::from_raw(it), groups: None });
        let error = check_shared(&path, "0", &server).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write to"), "{error:#}");
        chown(folder.path(), Some(1001), None).unwrap();
        check_shared(&path, "0", &server).unwrap();
        let error = check_shared(&path, "0", &other).unwrap_err();
        assert!(format!("{error:#}").contains("with mode 711"), "{error:#}");
    }

    #[test]
    fn directory_that_the_group_cannot_enter_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let own_group = fs::metadata(folder.path()).unwrap().gid();
        let other_group = own_group.wrapping_add(1);
        for (mode, group, is_closed) in [
            (0o700, own_group, true),
            (0o700, other_group, true),
            (0o711, own_group, false),
            (0o711, other_group, false),
            (0o710, own_group, false),
            (0o710, other_group, true),
            (0o701, own_group, true),
        ] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let found = find_closed_folder(&path, &group.to_string()).unwrap();
            // The directory for temporary files may be closed, too.
            let found = found.filter(|(it, _)| it == folder.path());
            let expected = is_closed.then(|| (folder.path().to_owned(), mode));
            assert_eq!(found, expected, "mode {mode:o}, group {group}");
        }
    }
}
