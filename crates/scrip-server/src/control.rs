//! The control socket, on which the operator's commands query the running server and change its
//! unlock methods.
//!
//! One socket is in the data directory and accessible to its owner only. The settings may add a
//! second one for a group of operators, who have fewer rights. A client sends one line of JSON and
//! receives one. A client of an earlier version sends nothing and receives the status.

mod action_runner;
mod handler;
pub mod protocol;
mod request_rate;
mod shared_socket;
pub mod socket_check;
pub mod status;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Context;
use nix::unistd::Uid;
use scrip_api::metrics::Label;
use tokio::{net::UnixListener, sync::Semaphore, time::sleep};

use crate::{
    config::Settings,
    control::{
        action_runner::ActionRunner,
        handler::ControlHandler,
        protocol::SOCKET_FILE,
        shared_socket::ControlClients,
        status::{ServerStatus, pool_status, scheme_statuses},
    },
    files::head_file::ServerHeadFile,
    node::Node,
};

/// Maximum number of concurrent requests.
const REQUESTS_MAX: usize = 16;

/// The open control sockets. Dropping it closes the sockets and removes their files.
#[derive(Debug)]
pub struct ControlSocket {
    paths: Vec<PathBuf>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl ControlSocket {
    /// Call this with the store open: the lock of the store proves that an existing socket is
    /// stale.
    /// Errors: a socket cannot be created.
    pub fn start(
        settings: &Settings,
        node: Arc<Node>,
        url: String,
        head_file: Arc<ServerHeadFile>,
    ) -> anyhow::Result<Self> {
        let path = settings.storage.data_dir.join(SOCKET_FILE);
        let listener =
            bind_private(&path).with_context(|| format!("{} cannot be created", path.display()))?;
        let started_at = node.app.vault.clock.now().to_string();
        let handler = ControlHandler {
            actions: ActionRunner {
                app: Arc::clone(&node.app),
                database: settings.storage.database(),
                head_file,
                refusals: Arc::default(),
            },
            manager: node.settings.key_manager.clone(),
            dual_control: node.settings.dual_control.clone(),
            server_uid: Uid::effective().as_raw(),
            rates: Arc::default(),
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
            is_development: node.app.settings.field_hosting.is_on_loopback,
            connections: node.connection_counts.open.load(Ordering::Relaxed),
            write_queue: node.app.vault.store.metrics().queued(),
            audit_sink_cause: node.settings.audit_sink.as_ref().and_then(|it| it.cause()),
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
