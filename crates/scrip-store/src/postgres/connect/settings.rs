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
        address::{Address, Transport},
        listen::Place,
    },
    engine::{
        fault::unavailable,
        pool::{DeletionClock, Pool},
    },
};

/// How long a request waits for a connection. A client that waits for longer is better told so.
const WAIT_MAX: Duration = Duration::from_secs(5);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longer than the engine's own timeouts, in `scope.rs`.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// How many of them have place behind each other inside the engine depends on its cores; more
/// connections than this make a node slower, not faster.
const CONNECTIONS: usize = 32;
/// For looking whether rights have changed, however busy the others are.
const CONNECTIONS_APART: usize = 2;

/// Where a vault is.
#[derive(Clone)]
pub struct PostgresSettings {
    config: Config,
    connections: usize,
    answer_max: Duration,
    serving: Option<String>,
    transport: Transport,
    tls: Option<MakeRustlsConnect>,
    shown: String,
    clock: DeletionClock,
}

/// What an address lacks. Never its text, which has a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongAddress(pub(crate) &'static str);

impl fmt::Display for WrongAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for WrongAddress {}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresSettings({})", self.shown)
    }
}

impl PostgresSettings {
    /// # Errors
    /// It is not the address of a PostgreSQL database.
    pub fn parse(url: &str) -> Result<Self, WrongAddress> {
        let Address { mut config, transport, shown } = Address::parse(url)?;
        if config.get_application_name().is_none() {
            config.application_name("scrip");
        }
        // All of them get their turn before whoever waits gives up, also where a name has two
        // addresses, each of which takes as long.
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        config.connect_timeout(CONNECT_MAX / hosts.saturating_mul(2));
        // Of several hosts, the one that takes writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.ssl_mode(match transport {
            Transport::Plain => SslMode::Disable,
            Transport::Tls => SslMode::Require,
        });
        notice_silence(&mut config);
        let (connections, answer_max) = (CONNECTIONS, ANSWER_MAX);
        let (serving, tls) = (None, None);
        let clock = DeletionClock::OfDatabase;
        Ok(Self { config, connections, answer_max, serving, transport, tls, shown, clock })
    }

    /// Whether whoever makes this has to say whom to trust.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The address without its secrets.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether a password is in the address.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// For tests, which move the clock of a node and cannot move that of PostgreSQL.
    #[must_use]
    pub fn trusting_the_clock_of_the_node(mut self) -> Self {
        self.clock = DeletionClock::OfNode;
        self
    }

    /// Never without TLS. Whom to trust is said by whoever makes this.
    #[must_use]
    pub fn over_tls(mut self, tls: MakeRustlsConnect) -> Self {
        self.config.ssl_mode(SslMode::Require);
        self.transport = Transport::Tls;
        self.tls = Some(tls);
        self
    }

    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// The role that nodes serve as, where that is not the one that owns the schema: migrating gives
    /// it its rights.
    #[must_use]
    pub fn served_by(mut self, role: &str) -> Self {
        self.serving = Some(role.to_owned());
        self
    }

    pub(crate) fn serving(&self) -> Option<&str> {
        self.serving.as_deref()
    }

    /// How long a server that hangs is waited for, each time that it is asked something.
    #[must_use]
    pub fn answer_within(mut self, answer_max: Duration) -> Self {
        self.answer_max = answer_max;
        self
    }

    /// For a connection that is no part of the pool.
    pub(crate) fn place(&self) -> Place {
        Place { config: self.config.clone(), tls: self.tls.clone() }
    }

    pub(crate) fn pool(self) -> Result<Pool, StoreError> {
        let (connections, apart) = (self.made(self.connections)?, self.made(CONNECTIONS_APART)?);
        Ok(Pool::new(connections, apart, self.answer_max).bounded_by(self.clock))
    }

    /// None is connected before somebody needs it.
    fn made(&self, connections: usize) -> Result<deadpool_postgres::Pool, StoreError> {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        // Without it, one that must have TLS connects to nobody.
        let manager = match self.tls.clone() {
            None => Manager::from_config(self.config.clone(), NoTls, settings),
            Some(tls) => Manager::from_config(self.config.clone(), tls, settings),
        };
        deadpool_postgres::Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(CONNECT_MAX))
            .recycle_timeout(Some(CONNECT_MAX))
            .build()
            .map_err(|_| unavailable("the pool of connections cannot be made"))
    }
}

/// A peer that is gone without a word is noticed by the system, also on a connection that only
/// listens.
fn notice_silence(config: &mut Config) {
    config.keepalives(true).keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
    config.tcp_user_timeout(ANSWER_MAX);
}
