//! The connections of a node, and how one is used: for a bounded time, and never again once an answer
//! stayed out.

use std::time::Duration;

use deadpool_postgres::{Object, Status};
use scrip_core::store::StoreError;

use crate::postgres::engine::lane::Lanes;
use crate::postgres::connect::settings::DeletionClock;
use crate::postgres::connect::settings::connection;
use crate::postgres::engine::statement::unavailable;

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    connections: deadpool_postgres::Pool,
    /// For what must not wait behind requests.
    apart: deadpool_postgres::Pool,
    lanes: Lanes,
    /// The engine's own timeouts are shorter. This one is for an engine that hangs, or is not there
    /// any more while nobody said so.
    answer_max: Duration,
    clock: DeletionClock,
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

    pub(crate) fn clock(&self) -> DeletionClock {
        self.clock
    }

    /// The few that requests do not have.
    pub(crate) fn apart(&self) -> Self {
        Self { connections: self.apart.clone(), ..self.clone() }
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
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
    clock: DeletionClock,
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

    pub(crate) fn clock(&self) -> DeletionClock {
        self.clock
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
