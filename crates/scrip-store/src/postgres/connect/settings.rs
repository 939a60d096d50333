//! How PostgreSQL is reached: an address, what to trust, and how many connections.

use std::{error::Error, fmt, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod, Runtime};
use scrip_core::store::StoreError;
use tokio_postgres::{
    Config, NoTls,
    config::{SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::postgres::{
    connect::{
        address::{PostgresAddress, PostgresTransport},
        directory_listener::ConnectionTarget,
    },
    engine::{
        error::unavailable,
        pool::{ConnectionPool, DeletionClock},
    },
};

/// How long a request waits for a connection. A client that waits for longer is better told so.
const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the engine's own timeouts, in `scope.rs`.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// How many of them have place behind each other inside the engine depends on its cores; more
/// connections than this make a node slower, not faster.
const DEFAULT_CONNECTIONS: usize = 32;
/// For looking whether rights have changed, however busy the others are.
const RESERVED_CONNECTIONS: usize = 2;

/// Where a vault is.
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

/// What an address lacks. Never its text, which has a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidAddress(pub(crate) &'static str);

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for InvalidAddress {}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresSettings({})", self.redacted)
    }
}

impl PostgresSettings {
    /// # Errors
    /// It is not the address of a PostgreSQL database.
    pub fn parse(url: &str) -> Result<Self, InvalidAddress> {
        let PostgresAddress { mut config, transport, redacted: shown } =
            PostgresAddress::parse(url)?;
        if config.get_application_name().is_none() {
            config.application_name("scrip");
        }
        // All of them get their turn before whoever waits gives up, also where a name has two
        // addresses, each of which takes as long.
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        config.connect_timeout(CONNECT_TIMEOUT / hosts.saturating_mul(2));
        // Of several hosts, the one that takes writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.ssl_mode(match transport {
            PostgresTransport::Plain => SslMode::Disable,
            PostgresTransport::Tls => SslMode::Require,
        });
        set_keepalives(&mut config);
        let (connections, answer_max) = (DEFAULT_CONNECTIONS, RESPONSE_TIMEOUT);
        let (serving, tls) = (None, None);
        let clock = DeletionClock::Database;
        Ok(Self {
            config,
            connections,
            response_timeout: answer_max,
            serve_role: serving,
            transport,
            tls,
            redacted: shown,
            clock,
        })
    }

    /// Whether whoever makes this has to say whom to trust.
    #[must_use]
    pub fn transport(&self) -> PostgresTransport {
        self.transport
    }

    /// The address without its secrets.
    #[must_use]
    pub fn redacted(&self) -> &str {
        &self.redacted
    }

    /// Whether a password is in the address.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// For tests, which move the clock of a node and cannot move that of PostgreSQL.
    #[must_use]
    pub fn with_node_clock(mut self) -> Self {
        self.clock = DeletionClock::Node;
        self
    }

    /// Never without TLS. Whom to trust is said by whoever makes this.
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

    /// The role that nodes serve as, where that is not the one that owns the schema: migrating gives
    /// it its rights.
    #[must_use]
    pub fn with_serve_role(mut self, role: &str) -> Self {
        self.serve_role = Some(role.to_owned());
        self
    }

    pub(crate) fn serve_role(&self) -> Option<&str> {
        self.serve_role.as_deref()
    }

    /// How long a server that hangs is waited for, each time that it is asked something.
    #[must_use]
    pub fn with_response_timeout(mut self, response_timeout: Duration) -> Self {
        self.response_timeout = response_timeout;
        self
    }

    /// For a connection that is no part of the pool.
    pub(crate) fn connection_target(&self) -> ConnectionTarget {
        ConnectionTarget { config: self.config.clone(), tls: self.tls.clone() }
    }

    pub(crate) fn pool(self) -> Result<ConnectionPool, StoreError> {
        let (connections, apart) =
            (self.build_pool(self.connections)?, self.build_pool(RESERVED_CONNECTIONS)?);
        Ok(ConnectionPool::new(connections, apart, self.response_timeout).with_clock(self.clock))
    }

    /// None is connected before somebody needs it.
    fn build_pool(&self, connections: usize) -> Result<deadpool_postgres::Pool, StoreError> {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        // Without it, one that must have TLS connects to nobody.
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
            .map_err(|_| unavailable("the pool of connections cannot be made"))
    }
}

/// A peer that is gone without a word is noticed by the system, also on a connection that only
/// listens.
fn set_keepalives(config: &mut Config) {
    config.keepalives(true).keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
    config.tcp_user_timeout(RESPONSE_TIMEOUT);
}
