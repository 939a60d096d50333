//! The control socket of the operators' group.

use std::{
    collections::HashMap,
    fs::{self, Permissions},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, bail};
use nix::{
    libc,
    unistd::{Gid, Group, Uid},
};
use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};
use zeroize::Zeroizing;

use crate::control::{
    handler::ControlHandler,
    protocol::{ControlRequest, ControlResponse, LINE_BYTES_MAX},
    status::ServerStatus,
};

/// Maximum number of concurrent requests of one user, who must not block the others.
const REQUESTS_PER_USER_MAX: usize = 4;
/// Maximum number of concurrent requests.
const REQUESTS_MAX: usize = 64;

/// Binds the socket for a group. The private socket has its own limits, so this group cannot block
/// the server's user.
pub(super) fn bind_shared(path: &Path, group: &str) -> anyhow::Result<UnixListener> {
    let group = find_group(group)?;
    check_folder(path, Uid::effective())?;
    let temporary = path.with_extension("tmp");
    drop(fs::remove_file(&temporary));
    let listener = UnixListener::bind(&temporary)?;
    if let Err(error) = publish(&temporary, path, group) {
        drop(fs::remove_file(&temporary));
        return Err(error);
    }
    Ok(listener)
}

/// Gives a new socket to the group, and only then its final name.
fn publish(temporary: &Path, path: &Path, group: Gid) -> anyhow::Result<()> {
    fs::set_permissions(temporary, Permissions::from_mode(0o600))?;
    chown(temporary, None, Some(group.as_raw())).map_err(explain_group_error)?;
    fs::set_permissions(temporary, Permissions::from_mode(0o660))?;
    fs::rename(temporary, path)?;
    Ok(())
}

fn explain_group_error(error: io::Error) -> anyhow::Error {
    let reason = match error.raw_os_error() {
        // The user namespace of the server has no number for this group.
        Some(libc::EINVAL) => {
            "the server cannot see this group: with systemd, set PrivateUsers=no as \
             deploy/scrip-operators.conf does"
        }
        Some(libc::EPERM) => "the server's user is not a member of this group",
        Some(_) | None => "the group of the socket cannot be set",
    };
    anyhow::Error::new(error).context(format!("server.control_group: {reason}"))
}

/// Checks that no user other than root and the server's user could replace the socket.
pub(super) fn check_folder(path: &Path, server: Uid) -> anyhow::Result<()> {
    let folder = path.parent().context("the path has no directory")?;
    let metadata =
        fs::metadata(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let is_trusted = metadata.uid() == 0 || metadata.uid() == server.as_raw();
    if !is_trusted || metadata.mode() & 0o022 != 0 {
        bail!(
            "{} is writable by other users, who could replace the socket; use a directory of root \
             or of the server's user with mode 711",
            folder.display()
        );
    }
    Ok(())
}

pub(super) fn find_group(name: &str) -> anyhow::Result<Gid> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    let group = Group::from_name(name).context("looking up groups failed")?;
    Ok(group.with_context(|| format!("server.control_group: group {name} does not exist"))?.gid)
}

/// Number of current requests by user.
#[derive(Debug, Default)]
struct RequestCounts(Mutex<HashMap<u32, usize>>);

impl RequestCounts {
    /// `None` if this user, or all users together, have too many requests.
    fn count(self: &Arc<Self>, uid: u32) -> Option<RequestSlot> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = counts.values().sum();
        let count = counts.entry(uid).or_default();
        if total >= REQUESTS_MAX || *count >= REQUESTS_PER_USER_MAX {
            return None;
        }
        *count = count.saturating_add(1);
        Some(RequestSlot { counts: Arc::clone(self), uid })
    }
}

/// One counted request.
struct RequestSlot {
    counts: Arc<RequestCounts>,
    uid: u32,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

/// Serves the socket. A connection over the limit is closed.
pub(super) async fn accept(listener: UnixListener, clients: ControlClients) {
    let counts = Arc::new(RequestCounts::default());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => serve(stream, &clients, &counts),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

fn serve(stream: UnixStream, clients: &ControlClients, counts: &Arc<RequestCounts>) {
    let Ok(peer) = stream.peer_cred() else { return };
    let Some(slot) = counts.count(peer.uid()) else { return };
    let clients = clients.clone();
    tokio::spawn(async move {
        clients.serve(stream).await;
        drop(slot);
    });
}

const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that has sent nothing for this long gets the status.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves the clients of both sockets.
#[derive(Clone)]
pub(super) struct ControlClients {
    pub(super) handler: ControlHandler,
    pub(super) build_status: Arc<dyn Fn() -> ServerStatus + Send + Sync>,
}

impl ControlClients {
    /// Reads a request and sends the response.
    pub(super) async fn serve(&self, mut stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let request = match timeout(REQUEST_TIMEOUT, read_request(&mut stream)).await {
            Ok(Ok(request)) => request,
            Ok(Err(_)) => {
                let text = "the request is not valid; the server runs another version of scrip";
                return send_line(stream, &ControlResponse::Unable(text.to_owned())).await;
            }
            Err(_) => ControlRequest::Status {},
        };
        if matches!(request, ControlRequest::Status {}) {
            return send_line(stream, &(self.build_status)()).await;
        }
        let response = self.handler.handle(request, peer.uid()).await;
        send_line(stream, &response).await;
    }
}

/// The status if the client closes its side without a request.
async fn read_request(stream: &mut UnixStream) -> anyhow::Result<ControlRequest> {
    let mut line = Zeroizing::new(String::new());
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line).await?;
    if line.is_empty() {
        return Ok(ControlRequest::Status {});
    }
    Ok(serde_json::from_str(&line)?)
}

async fn send_line(mut stream: UnixStream, response: &impl Serialize) {
    let Ok(line) = serde_json::to_vec(response) else { return };
    let mut line = Zeroizing::new(line);
    line.push(b'\n');
    drop(timeout(WRITE_TIMEOUT, stream.write_all(&line)).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_per_user() {
        let counts = Arc::new(RequestCounts::default());
        let mut slots: Vec<_> = (0..4).map(|_| counts.count(1).unwrap()).collect();
        assert!(counts.count(1).is_none());
        let other = counts.count(2);
        assert!(other.is_some(), "a user cannot block another one");
        slots.pop();
        assert!(counts.count(1).is_some());
        drop((slots, other));
        assert!(counts.0.lock().unwrap().is_empty());
    }

    #[test]
    fn requests_of_many_users_are_bounded() {
        let counts = Arc::new(RequestCounts::default());
        let slots: Vec<_> = (0..1000).filter_map(|uid| counts.count(uid)).collect();
        assert_eq!(slots.len(), REQUESTS_MAX);
    }

    #[test]
    fn error_of_a_group_names_its_reason() {
        for (code, expected) in [
            (libc::EINVAL, "cannot see this group"),
            (libc::EPERM, "is not a member"),
            (libc::EIO, "cannot be set"),
        ] {
            let error = explain_group_error(io::Error::from_raw_os_error(code));
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
    }

    #[test]
    fn group_is_a_name_or_a_number() {
        assert_eq!(find_group("65534").unwrap().as_raw(), 65_534);
        assert_eq!(find_group("root").unwrap().as_raw(), 0);
        assert!(find_group("no such group").is_err());
    }

    #[tokio::test]
    async fn socket_directory_must_not_be_writable_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let group = Gid::effective().as_raw().to_string();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(format!("{:#}", bind_shared(&path, &group).unwrap_err()).contains("writable"));
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
        drop(bind_shared(&path, &group).unwrap());
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.gid()), (0o660, Gid::effective().as_raw()));
    }

    #[tokio::test]
    async fn socket_that_cannot_get_its_name_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        // A socket cannot replace a directory.
        fs::create_dir(&path).unwrap();
        bind_shared(&path, &Gid::effective().as_raw().to_string()).unwrap_err();
        let names = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["control.sock"]);
    }
}
