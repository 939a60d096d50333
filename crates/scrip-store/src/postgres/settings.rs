//! How PostgreSQL is reached: an address, what to trust, and how many connections.

use std::{fmt, str::FromStr, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Object, RecyclingMethod, Runtime};
use scrip_core::store::StoreError;
use tokio_postgres::{
    Config, NoTls,
    config::{SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::postgres::{listen::Place, pool::Pool, statement::unavailable};

/// How long a request waits for a connection. A client that waits for longer is better told so.
const WAIT_MAX: Duration = Duration::from_secs(5);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longer than the engine's own timeouts, in `scope.rs`.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// How many of them have place behind each other inside the engine depends on its cores; more
/// connections than this make a node slower, not faster.
const CONNECTIONS: usize = 32;

/// Where a vault is.
#[derive(Clone)]
pub struct PostgresSettings {
    config: Config,
    connections: usize,
    answer_max: Duration,
    /// Without it, nothing is encrypted.
    tls: Option<MakeRustlsConnect>,
}

/// What an address lacks. Never its text, which has a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongAddress(&'static str);

impl fmt::Display for WrongAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for WrongAddress {}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresSettings")
    }
}

impl PostgresSettings {
    /// # Errors
    /// It is not the address of a PostgreSQL database.
    pub fn parse(url: &str) -> Result<Self, WrongAddress> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(WrongAddress("must begin with postgres://"));
        }
        let mut config = Config::from_str(url)
            .map_err(|_| WrongAddress("is not an address that PostgreSQL understands"))?;
        config.application_name("scrip").connect_timeout(CONNECT_MAX);
        // Of several hosts, the one that takes writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.ssl_mode(SslMode::Disable);
        notice_silence(&mut config);
        Ok(Self { config, connections: CONNECTIONS, answer_max: ANSWER_MAX, tls: None })
    }

    /// Never without TLS. Whom to trust is said by whoever makes this.
    #[must_use]
    pub fn over_tls(mut self, tls: MakeRustlsConnect) -> Self {
        self.config.ssl_mode(SslMode::Require);
        self.tls = Some(tls);
        self
    }

    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// How long a server that hangs is waited for, each time that it is asked something.
    #[must_use]
    pub fn answer_within(mut self, answer_max: Duration) -> Self {
        self.answer_max = answer_max;
        self
    }

    /// For a connection that is no part of the pool.
    pub(super) fn place(&self) -> Place {
        Place { config: self.config.clone(), tls: self.tls.clone() }
    }

    pub(super) fn pool(self) -> Result<Pool, StoreError> {
        let answer_max = self.answer_max;
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match self.tls {
            None => Manager::from_config(self.config, NoTls, settings),
            Some(tls) => Manager::from_config(self.config, tls, settings),
        };
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(self.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(CONNECT_MAX))
            .recycle_timeout(Some(CONNECT_MAX))
            .build()
            .map_err(|_| unavailable("the pool of connections cannot be made"))?;
        Ok(Pool::new(pool, answer_max))
    }
}

/// A peer that is gone without a word is noticed by the system, also on a connection that only
/// listens.
fn notice_silence(config: &mut Config) {
    config.keepalives(true).keepalives_idle(Duration::from_secs(10));
    config.keepalives_interval(Duration::from_secs(5)).keepalives_retries(3);
    config.tcp_user_timeout(ANSWER_MAX);
}

/// One of the pool's, once there is one.
pub(super) async fn connection(pool: &deadpool_postgres::Pool) -> Result<Object, StoreError> {
    match pool.get().await {
        Ok(client) => Ok(client),
        Err(deadpool_postgres::PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)) => {
            Err(StoreError::Busy)
        }
        Err(_) => Err(unavailable("PostgreSQL cannot be reached")),
    }
}
