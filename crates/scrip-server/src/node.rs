//! One server: the state of its requests, and everything it has besides.

use std::{sync::Arc, time::Duration};

use scrip_api::app::App;

use crate::{
    directory_servers::HttpDirectoryServers,
    listen::{connection_counts::ConnectionCounts, connection_limits::ConnectionLimits},
    metrics::key::MetricsKey,
    process,
};

/// What EMV allows.
const RANGES_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub struct Node {
    pub app: Arc<App>,
    pub settings: NodeSettings,
    pub connections: ConnectionCounts,
}

/// What an operator decides about a server besides its requests.
#[derive(Debug)]
pub struct NodeSettings {
    pub connections: ConnectionLimits,
    /// How many connections of clients the limit of open files allows.
    pub descriptor_slots: usize,
    /// With this key, `/metrics` is among the paths of the clients too.
    pub metrics_key: Option<MetricsKey>,
    /// The schemes that are connected: the same that the vault asks.
    pub directory_servers: Option<Arc<HttpDirectoryServers>>,
    /// How old their card ranges may get.
    pub ranges_age_max: Duration,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits::default(),
            descriptor_slots: process::descriptor_slots(),
            metrics_key: None,
            directory_servers: None,
            ranges_age_max: RANGES_AGE_MAX,
        }
    }
}

impl Node {
    #[must_use]
    pub fn new(app: Arc<App>, settings: NodeSettings) -> Self {
        Self { app, settings, connections: ConnectionCounts::default() }
    }

    /// Connections of clients that are served at once.
    #[must_use]
    pub fn connection_slots(&self) -> usize {
        self.settings.connections.connections_max.min(self.settings.descriptor_slots)
    }
}
