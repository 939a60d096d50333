//! The status of a running server.

use std::{os::unix::net::UnixStream, path::Path, sync::Arc, time::Duration};

use scrip_api::app::App;
use scrip_core::{Timestamp, types::metrics::ReaderPoolMetrics};
use serde::{Deserialize, Serialize};

use crate::{
    control::protocol::{ControlRequest, SOCKET_FILE, exchange},
    directory_servers::{self, ConnectedScheme},
    node::Node,
};

const READ_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Why records are not written to the audit sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_sink_cause: Option<String>,
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

pub(super) fn pool_status(app: &App) -> PoolStatus {
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

pub(super) fn scheme_statuses(node: &Node) -> Vec<SchemeStatus> {
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
    let stream = UnixStream::connect(data_dir.join(SOCKET_FILE)).ok()?;
    stream.set_read_timeout(Some(READ_TIMEOUT)).ok()?;
    let line = exchange(stream, &ControlRequest::Status {}).ok()?;
    serde_json::from_str(&line).ok()
}
