//! The connection pool of a node. Requests use connections with a timeout. A connection that did
//! not respond in time is closed, not reused.

use std::{error::Error, sync::Arc, time::Duration};

use deadpool_postgres::{Object, Status};
use scrip_core::{audit::LogKind, types::StoreError};
use tokio_postgres::error::SqlState;

use crate::{
    health::{StoreHealth, describe},
    postgres::engine::{
        error::{ResponseTimeout, failed_write_condition, unavailable},
        tenant_lock::TenantLocks,
    },
};

/// The clock by which a node decides that data is expired and may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionClock {
    /// The earlier of two clocks: the node's own, and the database's, which is the same for all
    /// nodes.
    EarlierOfBoth,
    /// Only the node's clock.
    Node,
}

/// The connections of a node.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPool {
    connections: deadpool_postgres::Pool,
    /// For work that must not wait behind requests.
    reserved: deadpool_postgres::Pool,
    pub(crate) locks: TenantLocks,
    /// Longer than PostgreSQL's own timeout of a statement. It is for a server that hangs or has
    /// disappeared without closing the connection.
    response_timeout: Duration,
    pub(crate) clock: DeletionClock,
    pub(crate) health: Arc<StoreHealth>,
}

impl ConnectionPool {
    pub(crate) fn new(
        connections: deadpool_postgres::Pool,
        reserved: deadpool_postgres::Pool,
        response_timeout: Duration,
    ) -> Self {
        let (locks, clock) = (TenantLocks::default(), DeletionClock::EarlierOfBoth);
        let health = Arc::default();
        Self { connections, reserved, locks, response_timeout, clock, health }
    }

    pub(crate) fn with_clock(self, clock: DeletionClock) -> Self {
        Self { clock, ..self }
    }

    /// Returns the pool of connections that requests cannot use.
    pub(crate) fn reserved(&self) -> Self {
        Self { connections: self.reserved.clone(), ..self.clone() }
    }

    pub(crate) fn status(&self) -> Status {
        self.connections.status()
    }

    /// Takes a connection without the response timeout, for work that belongs to no request. The
    /// wait for a free connection can still time out with [`StoreError::Busy`].
    pub(crate) async fn acquire_without_response_timeout(&self) -> Result<Object, StoreError> {
        wait_for_connection(&self.connections).await
    }

    /// Takes a connection with the response timeout.
    pub(crate) async fn acquire(&self) -> Result<PooledConnection, StoreError> {
        let client = self.acquire_without_response_timeout().await?;
        Ok(PooledConnection {
            client: Some(client),
            response_timeout: self.response_timeout,
            clock: self.clock,
        })
    }
}

/// A connection in use. Unless it is released it is closed on drop, and the server rolls back its
/// open transaction. The connection of a canceled request is also closed, not reused: the server
/// may never respond on it.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    client: Option<Object>,
    response_timeout: Duration,
    pub(crate) clock: DeletionClock,
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        drop(self.client.take().map(Object::take));
    }
}

impl PooledConnection {
    pub(crate) fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or(StoreError::Corrupt("the transaction has already ended"))
    }

    /// Returns the connection to the pool.
    pub(crate) fn release(&mut self) {
        drop(self.client.take());
    }

    /// Raises the response timeout for long-running work.
    pub(crate) fn raise_response_timeout(&mut self, response_timeout: Duration) {
        self.response_timeout = self.response_timeout.max(response_timeout);
    }

    /// Runs the work with the response timeout.
    pub(crate) async fn with_timeout<F: Future>(&self, work: F) -> Result<F::Output, StoreError> {
        let timeout_error = |_| StoreError::Unavailable(ResponseTimeout.into());
        tokio::time::timeout(self.response_timeout, work).await.map_err(timeout_error)
    }
}

/// Reports a failed write, if the disk of the database or a missing standby is the reason. One slot of the health is
/// enough, because both logs are in one database.
pub(crate) fn report_failed_write(health: &StoreHealth, error: &StoreError) {
    if let Some(condition) = failed_write_condition(error) {
        health.report_failure(LogKind::Audit, condition, &describe(error));
    }
}

/// Waits for a connection of the pool.
async fn wait_for_connection(pool: &deadpool_postgres::Pool) -> Result<Object, StoreError> {
    match pool.get().await {
        Ok(client) => Ok(client),
        Err(deadpool_postgres::PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)) => {
            Err(StoreError::Busy)
        }
        Err(deadpool_postgres::PoolError::Backend(error)) => Err(connection_error(&error)),
        Err(_) => Err(unavailable("PostgreSQL cannot be reached")),
    }
}

/// Describes a connection error to the operator. Reports the server's error code, not its message,
/// because the message may contain a secret value. Errors of the operating system and TLS contain
/// none.
fn connection_error(error: &tokio_postgres::Error) -> StoreError {
    let cause = match error.code() {
        Some(code) => {
            format!("PostgreSQL denied the connection: error {}{}", code.code(), explain_code(code))
        }
        None => {
            let source = error.source().map(|it| format!(": {it}")).unwrap_or_default();
            format!("PostgreSQL cannot be reached: {error}{source}")
        }
    };
    StoreError::Unavailable(cause.into())
}

fn explain_code(code: &SqlState) -> &'static str {
    match code.code() {
        "28P01" => " (wrong password or unknown user)",
        "28000" => " (this user may not connect from this host or without TLS)",
        "3D000" => " (unknown database)",
        "42501" => " (this user may not use the database)",
        "53300" => " (too many connections)",
        "57P03" => " (the server is starting or stopping)",
        _ => "",
    }
}
