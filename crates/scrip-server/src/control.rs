//! The control socket: who runs here, asked by the commands of the operator.
//!
//! It lies in the data directory, for its owner only. A connection is given one line of JSON.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read},
    os::unix::{fs::PermissionsExt, net},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::Context;
use scrip_api::app::App;
use scrip_core::{metrics::ReaderPoolMetrics, time::Timestamp};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::{
    directory_servers::{self, ConnectedScheme},
    node::Node,
};

const SOCKET_FILE: &str = "scrip.sock";
const DEADLINE: Duration = Duration::from_secs(5);
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What a running server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    pub version: String,
    pub pid: u32,
    pub started_at: String,
    /// Until the root key is found.
    pub sealed: bool,
    pub url: String,
    pub connections: usize,
    /// Writes that wait for the writer.
    pub queue: u64,
    /// Connections to the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolStatus>,
    /// Of the BIN data it has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin_rows: Option<u32>,
    /// The schemes that are connected, and what they have told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threeds: Vec<SchemeStatus>,
}

/// What they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    pub busy: u64,
    pub idle: u64,
}

fn pool_status(app: &App) -> PoolStatus {
    let ReaderPoolMetrics { busy, idle, .. } = app.vault.store.metrics().readers;
    PoolStatus { busy, idle }
}

/// One scheme that is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeStatus {
    /// For which tenants.
    pub tenant_type: String,
    pub scheme: String,
    pub card_ranges: usize,
    /// Since when these are in force; nothing before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<String>,
}

fn scheme_statuses(node: &Node) -> Vec<SchemeStatus> {
    let peers = node.settings.directory_servers.iter().flat_map(|it| it.connected_schemes());
    let status = |it: Arc<dyn ConnectedScheme>| {
        let fetched = i64::try_from(it.metrics().ranges_fetched_at.get()).unwrap_or(i64::MAX);
        let fetched = Some(Timestamp { unix_ms: fetched }).filter(|it| it.unix_ms > 0);
        SchemeStatus {
            tenant_type: directory_servers::tenant_kind_name(it.kind()).to_owned(),
            scheme: it.scheme().slug().to_owned(),
            card_ranges: it.ranges().map_or(0, |it| it.len()),
            fetched_at: fetched.map(|it| it.to_string()),
        }
    };
    peers.map(status).collect()
}

/// The server that has this data directory open, if one answers.
pub fn query_status(data_dir: &Path) -> Option<ServerStatus> {
    let stream = net::UnixStream::connect(data_dir.join(SOCKET_FILE)).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Answers until it is dropped, and then takes the file away.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl ControlSocket {
    /// Call it with the store open: its lock proves that a socket found here is nobody's.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(data_dir: &Path, node: Arc<Node>, url: String) -> anyhow::Result<Self> {
        let path = data_dir.join(SOCKET_FILE);
        let listener =
            bind_private(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        let started_at = node.app.vault.clock.now().to_string();
        let status = move || ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: started_at.clone(),
            sealed: node.app.is_sealed(),
            url: url.clone(),
            connections: node.connections.open.load(Ordering::Relaxed),
            queue: node.app.vault.store.metrics().queued(),
            pool: Some(pool_status(&node.app)),
            bin_rows: node.app.vault.bin_data.imported().map(|it| it.row_count()),
            threeds: scheme_statuses(&node),
        };
        let answering = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => send_status(stream, &status()).await,
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Self { path, task: answering })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        drop(fs::remove_file(&self.path));
    }
}

/// Made under another name: it has its place only once it is private. A stale one is replaced.
fn bind_private(path: &Path) -> anyhow::Result<UnixListener> {
    let draft = path.with_extension("draft");
    drop(fs::remove_file(&draft));
    let listener = UnixListener::bind(&draft)?;
    fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
    fs::rename(&draft, path)?;
    Ok(listener)
}

/// One after the other: nobody but the operator asks, and a line fits into any buffer.
async fn send_status(mut stream: UnixStream, status: &ServerStatus) {
    let Ok(mut line) = serde_json::to_vec(status) else { return };
    line.push(b'\n');
    drop(timeout(DEADLINE, stream.write_all(&line)).await);
}
