//! Connection settings of PostgreSQL: address, TLS and pool size.

use std::{fmt, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod, Runtime};
use scrip_core::types::StoreError;
use tokio_postgres::{
    Config, NoTls,
    config::{SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::postgres::{
    connect::{
        address::{InvalidAddress, PostgresAddress, PostgresTransport},
        directory_listener::ConnectionTarget,
    },
    engine::{
        error::unavailable,
        pool::{ConnectionPool, DeletionClock},
    },
};

/// How long a request waits for a pooled connection before it fails.
const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the server-side timeouts in `scope.rs`.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// The useful number depends on the cores of the database server. More connections make a node
/// slower.
const DEFAULT_CONNECTIONS: usize = 32;
/// Connections reserved for directory checks, so that load cannot delay them.
const RESERVED_CONNECTIONS: usize = 2;

/// Address and connection settings of a vault.
#[derive(Clone)]
pub struct PostgresSettings {
    config: Config,
    connections: usize,
    response_timeout: Duration,
    serve_role: Option<String>,
    transport: PostgresTransport,
    tls: Option<MakeRustlsConnect>,
    redacted: String,
    clock: DeletionClock,
}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresSettings({})", self.redacted)
    }
}

impl PostgresSettings {
    /// Parses an address.
    /// Errors: the URL is not the address of a PostgreSQL database.
    pub fn parse(url: &str) -> Result<Self, InvalidAddress> {
        let PostgresAddress { mut config, transport, redacted } = PostgresAddress::parse(url)?;
        if config.get_application_name().is_none() {
            config.application_name("scrip");
        }
        // Every host must be tried before the caller times out. A host name can have two addresses,
        // and each attempt takes the whole connect timeout.
        let host_count = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        config.connect_timeout(CONNECT_TIMEOUT / host_count.saturating_mul(2));
        // Of several hosts, use the one that accepts writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.ssl_mode(match transport {
            PostgresTransport::Plain => SslMode::Disable,
            PostgresTransport::Tls => SslMode::Require,
        });
        set_keepalives(&mut config);
        let (connections, response_timeout) = (DEFAULT_CONNECTIONS, RESPONSE_TIMEOUT);
        let (serve_role, tls) = (None, None);
        let clock = DeletionClock::EarlierOfBoth;
        Ok(Self {
            config,
            connections,
            response_timeout,
            serve_role,
            transport,
            tls,
            redacted,
            clock,
        })
    }

    /// Whether the caller must set trusted certificates with [`PostgresSettings::with_tls`].
    pub fn transport(&self) -> PostgresTransport {
        self.transport
    }

    /// The address without secrets.
    pub fn redacted(&self) -> &str {
        &self.redacted
    }

    /// Whether the address contains a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Uses the node's clock for deletions. Only for tests, which cannot change PostgreSQL's clock.
    #[must_use]
    pub fn with_node_clock(mut self) -> Self {
        self.clock = DeletionClock::Node;
        self
    }

    /// Sets the TLS configuration, which contains the trusted certificates. The connection is never
    /// unencrypted.
    #[must_use]
    pub fn with_tls(mut self, tls: MakeRustlsConnect) -> Self {
        self.config.ssl_mode(SslMode::Require);
        self.transport = PostgresTransport::Tls;
        self.tls = Some(tls);
        self
    }

    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Sets the role of the serving nodes, if it does not own the schema. The migration grants its
    /// rights.
    #[must_use]
    pub fn with_serve_role(mut self, role: &str) -> Self {
        self.serve_role = Some(role.to_owned());
        self
    }

    pub(crate) fn serve_role(&self) -> Option<&str> {
        self.serve_role.as_deref()
    }

    /// Sets the timeout of each request to the server.
    #[must_use]
    pub fn with_response_timeout(mut self, response_timeout: Duration) -> Self {
        self.response_timeout = response_timeout;
        self
    }

    /// Returns the target of a connection outside the pool.
    pub(crate) fn connection_target(&self) -> ConnectionTarget {
        ConnectionTarget { config: self.config.clone(), tls: self.tls.clone() }
    }

    pub(crate) fn pool(self) -> Result<ConnectionPool, StoreError> {
        let (connections, reserved) =
            (self.build_pool(self.connections)?, self.build_pool(RESERVED_CONNECTIONS)?);
        Ok(ConnectionPool::new(connections, reserved, self.response_timeout).with_clock(self.clock))
    }

    /// Builds a pool. Its connections are opened on first use.
    fn build_pool(&self, connections: usize) -> Result<deadpool_postgres::Pool, StoreError> {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        // Without a TLS configuration, an address that requires TLS fails to connect.
        let manager = match self.tls.clone() {
            None => Manager::from_config(self.config.clone(), NoTls, settings),
            Some(tls) => Manager::from_config(self.config.clone(), tls, settings),
        };
        deadpool_postgres::Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECTION_WAIT_MAX))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .recycle_timeout(Some(CONNECT_TIMEOUT))
            .build()
            .map_err(|_| unavailable("the connection pool cannot be created"))
    }
}

/// TCP keepalives detect a peer that disappeared, also on the connection that only listens.
fn set_keepalives(config: &mut Config) {
    config.keepalives(true).keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
    config.tcp_user_timeout(RESPONSE_TIMEOUT);
}
