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
use scrip_core::{measure::ReaderMeasures, time::Timestamp};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::{
    directory_servers::{self, Peer},
    node::Node,
};

const FILE: &str = "scrip.sock";
const DEADLINE: Duration = Duration::from_secs(5);
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What a running server says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
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
    pub pool: Option<Pool>,
    /// Of the BIN data it has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin_rows: Option<u32>,
    /// The schemes that are connected, and what they have told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threeds: Vec<SchemeStatus>,
}

/// What they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    pub busy: u64,
    pub idle: u64,
}

fn pool(app: &App) -> Pool {
    let ReaderMeasures { busy, idle, .. } = app.vault.store.measures().readers;
    Pool { busy, idle }
}

/// One scheme that is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeStatus {
    /// For which tenants.
    pub world: String,
    pub scheme: String,
    pub card_ranges: usize,
    /// Since when these are in force; nothing before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<String>,
}

fn schemes(node: &Node) -> Vec<SchemeStatus> {
    let peers = node.settings.schemes.iter().flat_map(|it| it.peers());
    let status = |it: Arc<dyn Peer>| {
        let fetched = i64::try_from(it.counts().fetched.get()).unwrap_or(i64::MAX);
        let fetched = Some(Timestamp { unix_ms: fetched }).filter(|it| it.unix_ms > 0);
        SchemeStatus {
            world: directory_servers::world(it.kind()).to_owned(),
            scheme: it.scheme().slug().to_owned(),
            card_ranges: it.ranges().map_or(0, |it| it.len()),
            fetched_at: fetched.map(|it| it.to_string()),
        }
    };
    peers.map(status).collect()
}

/// The server that has this data directory open, if one answers.
pub fn ask(data_dir: &Path) -> Option<Status> {
    let stream = net::UnixStream::connect(data_dir.join(FILE)).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Answers until it is dropped, and then takes the file away.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    answering: tokio::task::JoinHandle<()>,
}

impl Control {
    /// Call it with the store open: its lock proves that a socket found here is nobody's.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(data_dir: &Path, node: Arc<Node>, url: String) -> anyhow::Result<Self> {
        let path = data_dir.join(FILE);
        let listener = bind(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        let started_at = node.app.vault.clock.now().to_string();
        let status = move || Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: started_at.clone(),
            sealed: node.app.is_sealed(),
            url: url.clone(),
            connections: node.connections.open.load(Ordering::Relaxed),
            queue: node.app.vault.store.measures().waiting(),
            pool: Some(pool(&node.app)),
            bin_rows: node.app.vault.bins.imported().map(|it| it.rows()),
            threeds: schemes(&node),
        };
        let answering = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => tell(stream, &status()).await,
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Self { path, answering })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.answering.abort();
        drop(fs::remove_file(&self.path));
    }
}

/// Made under another name: it has its place only once it is private. A stale one is replaced.
fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let draft = path.with_extension("draft");
    drop(fs::remove_file(&draft));
    let listener = UnixListener::bind(&draft)?;
    fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
    fs::rename(&draft, path)?;
    Ok(listener)
}

/// One after the other: nobody but the operator asks, and a line fits into any buffer.
async fn tell(mut stream: UnixStream, status: &Status) {
    let Ok(mut line) = serde_json::to_vec(status) else { return };
    line.push(b'\n');
    drop(timeout(DEADLINE, stream.write_all(&line)).await);
}
