//! Reading a request's body: bounded in length, in time, in rate and in memory.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::{
    app::{App, body_memory::BodyReservation, memory_pool::MemoryExhausted},
    metrics::MemoryRejection,
    problem::Problem,
};

/// The whole body, and memory for it and for what will be parsed from it.
pub async fn read_body(
    app: &App,
    body: &mut Body,
    deadline: Duration,
    bytes_max: usize,
    reservation: &mut BodyReservation,
) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > u64::try_from(bytes_max).unwrap_or(u64::MAX) {
        return Err(Problem::TooLarge);
    }
    let arriving = BodyBuffer { bytes_max, first_chunk: Bytes::new(), all_bytes: Vec::new() };
    let arrived = timeout(deadline, arriving.read(app, body, reservation)).await;
    let body = arrived.map_err(|_| Problem::BodyTimeout)??;
    reservation.grow_for_parsing(body.len()).map_err(|it| reject(app, it))?;
    Ok(body)
}

fn reject(app: &App, exhausted: MemoryExhausted) -> Problem {
    app.metrics.bodies_rejected.increment(MemoryRejection::from_exhausted(exhausted));
    Problem::NoBodyMemory
}

/// What has come of a body. Nearly every body is one chunk, which is then not copied.
struct BodyBuffer {
    bytes_max: usize,
    first_chunk: Bytes,
    all_bytes: Vec<u8>,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.first_chunk.len().max(self.all_bytes.len())
    }

    /// In windows, in each of which enough must come.
    async fn read(
        mut self,
        app: &App,
        body: &mut Body,
        reservation: &mut BodyReservation,
    ) -> Result<Bytes, Problem> {
        let rate = app.limits.request_rate;
        loop {
            let before = self.len();
            let reading = self.read_chunks(app, body, reservation);
            let Ok(read) = timeout(rate.window, reading).await else {
                let bytes = self.len().saturating_sub(before);
                if rate.is_missed(u64::try_from(bytes).unwrap_or(u64::MAX)) {
                    return Err(Problem::BodyTimeout);
                }
                continue;
            };
            read?;
            let Self { first_chunk: first, all_bytes: whole, .. } = self;
            return Ok(if whole.is_empty() { first } else { whole.into() });
        }
    }

    async fn read_chunks(
        &mut self,
        app: &App,
        body: &mut Body,
        reservation: &mut BodyReservation,
    ) -> Result<(), Problem> {
        while let Some(frame) = body.frame().await {
            let broken = |_| Problem::Malformed("the body broke off".to_owned());
            let Ok(chunk) = frame.map_err(broken)?.into_data() else { continue };
            if self.len().saturating_add(chunk.len()) > self.bytes_max {
                return Err(Problem::TooLarge);
            }
            reservation.grow(chunk.len()).map_err(|it| reject(app, it))?;
            if self.first_chunk.is_empty() {
                self.first_chunk = chunk;
                continue;
            }
            if self.all_bytes.is_empty() {
                self.all_bytes.extend_from_slice(&self.first_chunk);
            }
            self.all_bytes.extend_from_slice(&chunk);
        }
        Ok(())
    }
}
