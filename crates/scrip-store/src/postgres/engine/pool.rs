//! The connections of a node, and how one is used: for a bounded time, and never again once an answer
//! stayed out.

use std::{error::Error, time::Duration};

use deadpool_postgres::{Object, Status};
use scrip_core::store::StoreError;
use tokio_postgres::error::SqlState;

use crate::postgres::engine::{fault::unavailable, lane::Lanes};

/// Which clock bounds what a node destroys because its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionClock {
    /// That of the database too, which all nodes share.
    OfDatabase,
    /// That of the node alone.
    OfNode,
}

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    connections: deadpool_postgres::Pool,
    /// For what must not wait behind requests.
    apart: deadpool_postgres::Pool,
    pub(crate) lanes: Lanes,
    /// The engine's own timeouts are shorter. This one is for an engine that hangs, or is not there
    /// any more while nobody said so.
    answer_max: Duration,
    pub(crate) clock: DeletionClock,
}

impl Pool {
    pub(crate) fn new(
        connections: deadpool_postgres::Pool,
        apart: deadpool_postgres::Pool,
        answer_max: Duration,
    ) -> Self {
        let (lanes, clock) = (Lanes::default(), DeletionClock::OfDatabase);
        Self { connections, apart, lanes, answer_max, clock }
    }

    pub(crate) fn bounded_by(self, clock: DeletionClock) -> Self {
        Self { clock, ..self }
    }

    /// The few that requests do not have.
    pub(crate) fn apart(&self) -> Self {
        Self { connections: self.apart.clone(), ..self.clone() }
    }

    pub(crate) fn status(&self) -> Status {
        self.connections.status()
    }

    /// As it is, for what is no request's.
    pub(crate) async fn connection(&self) -> Result<Object, StoreError> {
        connection(&self.connections).await
    }

    pub(crate) async fn hold(&self) -> Result<Held, StoreError> {
        let client = self.connection().await?;
        Ok(Held { client: Some(client), answer_max: self.answer_max, clock: self.clock })
    }
}

/// A connection in use. Unless it is released, nobody uses it again: it is closed, and the engine
/// takes back what it was in the middle of. That also goes for one that somebody stopped waiting
/// for, since it may be that it will never answer.
#[derive(Debug)]
pub(crate) struct Held {
    client: Option<Object>,
    answer_max: Duration,
    pub(crate) clock: DeletionClock,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.client.take().map(Object::take));
    }
}

impl Held {
    pub(crate) fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or(StoreError::Corrupt("a transaction is used after its end"))
    }

    /// Back to the others.
    pub(crate) fn release(&mut self) {
        drop(self.client.take());
    }

    /// For what takes long by its nature.
    pub(crate) fn wait_for(&mut self, answer_max: Duration) {
        self.answer_max = self.answer_max.max(answer_max);
    }

    /// What comes of it in time.
    pub(crate) async fn in_time<F: Future>(&self, work: F) -> Result<F::Output, StoreError> {
        let late = |_| unavailable("PostgreSQL did not answer in time");
        tokio::time::timeout(self.answer_max, work).await.map_err(late)
    }
}

/// One of the pool's, once there is one.
async fn connection(pool: &deadpool_postgres::Pool) -> Result<Object, StoreError> {
    match pool.get().await {
        Ok(client) => Ok(client),
        Err(deadpool_postgres::PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)) => {
            Err(StoreError::Busy)
        }
        Err(deadpool_postgres::PoolError::Backend(error)) => Err(unreachable(&error)),
        Err(_) => Err(unavailable("PostgreSQL cannot be reached")),
    }
}

/// For the operator. What the server says in words may quote something; its codes, and what the
/// system and TLS say, do not.
fn unreachable(error: &tokio_postgres::Error) -> StoreError {
    let cause = match error.code() {
        Some(code) => format!("PostgreSQL lets nobody in: error {}{}", code.code(), meaning(code)),
        None => {
            let cause = error.source().map(|it| format!(": {it}")).unwrap_or_default();
            format!("PostgreSQL cannot be reached: {error}{cause}")
        }
    };
    StoreError::Unavailable(cause.into())
}

fn meaning(code: &SqlState) -> &'static str {
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
