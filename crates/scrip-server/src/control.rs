//! The control socket, on which the operator's commands query the running server and change its
//! unlock methods.
//!
//! One socket is in the data directory and accessible to its owner only. The settings may add a
//! second one for a group of operators, who have fewer rights. A client sends one line of JSON and
//! receives one. A client of an earlier version sends nothing and receives the status.

mod handler;
pub mod protocol;
mod shared_socket;
pub mod socket_check;

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, net},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Context;
use nix::unistd::Uid;
use scrip_api::{app::App, metrics::Label};
use scrip_core::{metrics::ReaderPoolMetrics, time::Timestamp};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use zeroize::Zeroizing;

use crate::{
    config::Settings,
    control::{
        handler::ControlHandler,
        protocol::{ControlRequest, ControlResponse, LINE_BYTES_MAX, SOCKET_FILE, exchange},
    },
    directory_servers::{self, ConnectedScheme},
    node::Node,
};

const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that has sent nothing for this long gets the status.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum number of concurrent requests.
const REQUESTS_MAX: usize = 16;

/// Status of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    pub version: String,
    pub pid: u32,
    pub started_at: String,
    /// True until the root key opens the vault.
    pub sealed: bool,
    /// Why no unlock method opens the vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_cause: Option<String>,
    /// Why the server is not ready, as in the metric `scrip_not_ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    pub url: String,
    /// `scrip dev`, which also serves hosted fields on loopback hosts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_development: bool,
    pub connections: usize,
    /// Number of writes that wait in the queues of the server.
    pub write_queue: u64,
    /// Connections to the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolStatus>,
    /// Number of rows of the loaded BIN data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin_rows: Option<u32>,
    /// Connected schemes and their card ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threeds: Vec<SchemeStatus>,
}

/// Usage of the connection pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    pub busy: u64,
    pub idle: u64,
}

fn pool_status(app: &App) -> PoolStatus {
    let ReaderPoolMetrics { busy, idle, .. } = app.vault.store.metrics().readers;
    PoolStatus { busy, idle }
}

/// Status of a connected scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeStatus {
    /// Kind of tenants that use this connection.
    pub tenant_type: String,
    pub scheme: String,
    pub card_ranges: usize,
    /// Time of the last fetch; `None` before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<String>,
}

fn scheme_statuses(node: &Node) -> Vec<SchemeStatus> {
    let schemes = node.settings.directory_servers.iter().flat_map(|it| it.connected_schemes());
    let to_status = |it: Arc<dyn ConnectedScheme>| {
        let fetched_at = i64::try_from(it.metrics().ranges_fetched_at.get()).unwrap_or(i64::MAX);
        let fetched_at = Some(Timestamp { unix_ms: fetched_at }).filter(|it| it.unix_ms > 0);
        SchemeStatus {
            tenant_type: directory_servers::tenant_kind_name(it.kind()).to_owned(),
            scheme: it.scheme().slug().to_owned(),
            card_ranges: it.ranges().map_or(0, |it| it.len()),
            fetched_at: fetched_at.map(|it| it.to_string()),
        }
    };
    schemes.map(to_status).collect()
}

/// Returns the status of the server that uses this data directory, if one responds.
pub fn query_status(data_dir: &Path) -> Option<ServerStatus> {
    let stream = net::UnixStream::connect(data_dir.join(SOCKET_FILE)).ok()?;
    stream.set_read_timeout(Some(IO_TIMEOUT)).ok()?;
    let line = exchange(stream, &ControlRequest::Status {}).ok()?;
    serde_json::from_str(&line).ok()
}

/// The open control sockets. Dropping it closes the sockets and removes their files.
#[derive(Debug)]
pub struct ControlSocket {
    paths: Vec<PathBuf>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl ControlSocket {
    /// Call this with the store open: the lock of the store proves that an existing socket is
    /// stale.
    ///
    /// # Errors
    /// A socket cannot be created.
    pub fn start(settings: &Settings, node: Arc<Node>, url: String) -> anyhow::Result<Self> {
        let path = settings.storage.data_dir.join(SOCKET_FILE);
        let listener =
            bind_private(&path).with_context(|| format!("{} cannot be created", path.display()))?;
        let started_at = node.app.vault.clock.now().to_string();
        let handler = ControlHandler {
            manager: node.settings.key_manager.clone(),
            dual_control: node.settings.dual_control.clone(),
            server_uid: Uid::effective().as_raw(),
        };
        let status_manager = handler.manager.clone();
        let build_status = move || ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: started_at.clone(),
            sealed: node.app.is_sealed(),
            sealed_cause: status_manager.as_ref().and_then(|it| it.sealed_cause()),
            not_ready: node.app.not_ready_reason().map(|it| it.as_str().to_owned()),
            url: url.clone(),
            is_development: node.app.field_hosting.is_on_loopback,
            connections: node.connection_counts.open.load(Ordering::Relaxed),
            write_queue: node.app.vault.store.metrics().queued(),
            pool: Some(pool_status(&node.app)),
            bin_rows: node.app.vault.bin_data.imported().map(|it| it.row_count()),
            threeds: scheme_statuses(&node),
        };
        let clients = ControlClients { handler, build_status: Arc::new(build_status) };
        let mut sockets = Self {
            paths: vec![path],
            tasks: vec![tokio::spawn(accept(listener, clients.clone()))],
        };
        let server = &settings.server;
        if let (Some(path), Some(group)) = (&server.control_socket, &server.control_group) {
            match shared_socket::bind_shared(path, group) {
                Ok(listener) => {
                    sockets.paths.push(path.clone());
                    sockets.tasks.push(tokio::spawn(shared_socket::accept(listener, clients)));
                }
                // The server's user still has the private socket.
                Err(error) => {
                    let (cause, path) = (format!("{error:#}"), path.display());
                    tracing::error!(cause, %path, "server.control_socket cannot be created");
                }
            }
        } else if server.control_socket.is_some() {
            tracing::warn!("server.control_socket is not created: server.control_group is not set");
        }
        Ok(sockets)
    }
}

/// Serves the private socket.
async fn accept(listener: UnixListener, clients: ControlClients) {
    let slots = Arc::new(Semaphore::new(REQUESTS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let clients = clients.clone();
                tokio::spawn(async move {
                    clients.serve(stream).await;
                    drop(slot);
                });
            }
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        self.paths.iter().for_each(|it| drop(fs::remove_file(it)));
    }
}

/// Binds under a temporary name and renames the socket after its permissions are set. Replaces a
/// stale socket.
fn bind_private(path: &Path) -> anyhow::Result<UnixListener> {
    let temporary = path.with_extension("tmp");
    drop(fs::remove_file(&temporary));
    let listener = UnixListener::bind(&temporary)?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
    fs::rename(&temporary, path)?;
    Ok(listener)
}

/// Serves the clients of both sockets.
#[derive(Clone)]
struct ControlClients {
    handler: ControlHandler,
    build_status: Arc<dyn Fn() -> ServerStatus + Send + Sync>,
}

impl ControlClients {
    /// Reads a request and sends the response.
    async fn serve(&self, mut stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let request = match timeout(REQUEST_TIMEOUT, read_request(&mut stream)).await {
            Ok(Ok(request)) => request,
            Ok(Err(_)) => {
                let text = "the request is not valid; the server runs another version of scrip";
                return send_line(stream, &ControlResponse::Error(text.to_owned())).await;
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
    drop(timeout(IO_TIMEOUT, stream.write_all(&line)).await);
}
