//! The connections of a node, and how one is used: for a bounded time, and never again once an answer
//! stayed out.

use std::{error::Error, time::Duration};

use deadpool_postgres::{Object, Status};
use scrip_core::store::StoreError;
use tokio_postgres::error::SqlState;

use crate::postgres::engine::{error::unavailable, tenant_lock::TenantLocks};

/// Which clock bounds what a node destroys because its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionClock {
    /// That of the database too, which all nodes share.
    Database,
    /// That of the node alone.
    Node,
}

#[derive(Debug, Clone)]
pub(crate) struct ConnectionPool {
    connections: deadpool_postgres::Pool,
    /// For what must not wait behind requests.
    reserved: deadpool_postgres::Pool,
    pub(crate) locks: TenantLocks,
    /// The engine's own timeouts are shorter. This one is for an engine that hangs, or is not there
    /// any more while nobody said so.
    response_timeout: Duration,
    pub(crate) clock: DeletionClock,
}

impl ConnectionPool {
    pub(crate) fn new(
        connections: deadpool_postgres::Pool,
        reserved: deadpool_postgres::Pool,
        response_timeout: Duration,
    ) -> Self {
        let (lanes, clock) = (TenantLocks::default(), DeletionClock::Database);
        Self { connections, reserved, locks: lanes, response_timeout, clock }
    }

    pub(crate) fn with_clock(self, clock: DeletionClock) -> Self {
        Self { clock, ..self }
    }

    /// The few that requests do not have.
    pub(crate) fn reserved(&self) -> Self {
        Self { connections: self.reserved.clone(), ..self.clone() }
    }

    pub(crate) fn status(&self) -> Status {
        self.connections.status()
    }

    /// As it is, for what is no request's.
    pub(crate) async fn connection(&self) -> Result<Object, StoreError> {
        connection(&self.connections).await
    }

    pub(crate) async fn acquire(&self) -> Result<PooledConnection, StoreError> {
        let client = self.connection().await?;
        Ok(PooledConnection {
            client: Some(client),
            response_timeout: self.response_timeout,
            clock: self.clock,
        })
    }
}

/// A connection in use. Unless it is released, nobody uses it again: it is closed, and the engine
/// takes back what it was in the middle of. That also goes for one that somebody stopped waiting
/// for, since it may be that it will never answer.
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
        self.client.as_ref().ok_or(StoreError::Corrupt("a transaction is used after its end"))
    }

    /// Back to the others.
    pub(crate) fn release(&mut self) {
        drop(self.client.take());
    }

    /// For what takes long by its nature.
    pub(crate) fn raise_response_timeout(&mut self, response_timeout: Duration) {
        self.response_timeout = self.response_timeout.max(response_timeout);
    }

    /// What comes of it in time.
    pub(crate) async fn with_timeout<F: Future>(&self, work: F) -> Result<F::Output, StoreError> {
        let late = |_| unavailable("PostgreSQL did not answer in time");
        tokio::time::timeout(self.response_timeout, work).await.map_err(late)
    }
}

/// One of the pool's, once there is one.
async fn connection(pool: &deadpool_postgres::Pool) -> Result<Object, StoreError> {
    match pool.get().await {
        Ok(client) => Ok(client),
        Err(deadpool_postgres::PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)) => {
            Err(StoreError::Busy)
        }
        Err(deadpool_postgres::PoolError::Backend(error)) => Err(connection_error(&error)),
        Err(_) => Err(unavailable("PostgreSQL cannot be reached")),
    }
}

/// For the operator. What the server says in words may quote something; its codes, and what the
/// system and TLS say, do not.
fn connection_error(error: &tokio_postgres::Error) -> StoreError {
    let cause = match error.code() {
        Some(code) => {
            format!("PostgreSQL lets nobody in: error {}{}", code.code(), explain_code(code))
        }
        None => {
            let cause = error.source().map(|it| format!(": {it}")).unwrap_or_default();
            format!("PostgreSQL cannot be reached: {error}{cause}")
        }
    };
    StoreError::Unavailable(cause.into())
}

fn explain_code(code: &SqlState) -> &'static str {
    match code.code() {
        "28P01" => " (the password is wrong, or there is no such user)",
        "28000" => " (this user may not come in from here, or not in clear)",
        "3D000" => " (there is no such database)",
        "42501" => " (this user may not use the database)",
        "53300" => " (it has too many connections)",
        "57P03" => " (it is starting or stopping)",
        _ => "",
    }
}
