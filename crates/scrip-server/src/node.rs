//! State of one server: the API state, settings and metrics.

pub mod metrics_key;

use std::{path::PathBuf, sync::Arc, time::Duration};

use scrip_api::app::App;

use crate::{
    audit_sink::health::SinkHealth,
    config::key_rotation::KeyRotationPace,
    connections::{ConnectionCounts, ConnectionLimits},
    directory_servers::HttpDirectoryServers,
    dual_control::DualControl,
    node::metrics_key::MetricsKey,
    process,
    request_log::RequestLog,
    tls::Certificates,
    unlock::manager::KeyManager,
};

/// Default refresh interval of card ranges. EMV allows at most one day.
const CARD_RANGES_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The state of a server, shared by its listeners and background tasks.
#[derive(Debug)]
pub struct Node {
    pub app: Arc<App>,
    pub settings: NodeSettings,
    pub connection_counts: ConnectionCounts,
}

/// Settings of a server that the API does not use.
#[derive(Debug)]
pub struct NodeSettings {
    pub connection_limits: ConnectionLimits,
    /// Number of client connections that the limit of open files allows.
    pub open_file_connections_max: usize,
    /// If set, `/metrics` is also served on the client listener with this key.
    pub metrics_key: Option<MetricsKey>,
    /// The clients of the connected schemes. The vault uses the same instance.
    pub directory_servers: Option<Arc<HttpDirectoryServers>>,
    /// Card ranges are fetched again at this age.
    pub card_ranges_age_max: Duration,
    pub sealed_start: SealedStart,
    /// The certificates of the client listener, for metrics. The listener uses the same instance.
    pub certificates: Option<Arc<Certificates>>,
    /// The free space of the file system of this directory is measured.
    pub data_dir: Option<PathBuf>,
    /// Whether this node delivers events to webhooks.
    pub delivers_webhooks: bool,
    pub key_rotation: KeyRotationPace,
    /// Opens the vault and changes its unlock methods.
    pub key_manager: Option<Arc<KeyManager>>,
    /// Actions of operators that need a second operator.
    pub dual_control: Option<Arc<DualControl>>,
    /// The state of the audit sink; `None` without `audit.sink`.
    pub audit_sink: Option<Arc<SinkHealth>>,
    /// Gets every request of the client listener.
    pub request_log: Option<Arc<dyn RequestLog>>,
}

/// How requests are served from the start of the server until the vault is unsealed for the first
/// time. Health checks respond immediately in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedStart {
    /// The root key may be missing for a long time, so requests are rejected with 503.
    Reject,
    /// The process itself unseals the vault within moments or exits, so requests wait.
    Wait,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            connection_limits: ConnectionLimits::default(),
            open_file_connections_max: process::open_file_connections_max(),
            metrics_key: None,
            directory_servers: None,
            card_ranges_age_max: CARD_RANGES_AGE_MAX,
            sealed_start: SealedStart::Reject,
            certificates: None,
            data_dir: None,
            delivers_webhooks: true,
            key_rotation: KeyRotationPace::default(),
            key_manager: None,
            dual_control: None,
            audit_sink: None,
            request_log: None,
        }
    }
}

impl Node {
    pub fn new(app: Arc<App>, settings: NodeSettings) -> Self {
        Self { app, settings, connection_counts: ConnectionCounts::default() }
    }

    /// Maximum number of concurrent client connections: the smaller one of the setting and the
    /// limit of open files.
    pub fn connections_max(&self) -> usize {
        let NodeSettings { connection_limits, open_file_connections_max, .. } = &self.settings;
        connection_limits.connections_max.min(*open_file_connections_max)
    }
}
