//! Reads the body of a request, with limits on length, time, rate and memory.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::{
    app::{App, body_memory::BodyReservation},
    metrics::MemoryRejection,
    middleware::unread_body::TooManyFrames,
    problem::Problem,
    route::BodyKind,
};

/// Reads the body of a request when its route uses one.
pub(crate) async fn read_route_body(
    app: &App,
    kind: BodyKind,
    body: &mut Body,
    reservation: &mut BodyReservation,
) -> Result<Bytes, Problem> {
    match kind {
        BodyKind::None | BodyKind::Ignored => Ok(Bytes::new()),
        BodyKind::Json | BodyKind::OptionalJson | BodyKind::ReadOnlyJson | BodyKind::MergePatch => {
            let (deadline, bytes_max) =
                (app.settings.limits.body_deadline, app.settings.limits.body_bytes_max);
            read_body(app, body, deadline, bytes_max, reservation).await
        }
    }
}

/// Reads the whole body, and reserves memory for the body and for its parsed form.
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
    let buffer = BodyBuffer { bytes_max, first_chunk: Bytes::new(), all_bytes: Vec::new() };
    let result = timeout(deadline, buffer.read(app, body, reservation)).await;
    let body = result.map_err(|_| Problem::BodyTimeout)??;
    reservation.grow_for_parsing(body.len()).map_err(|it| reject(app, it))?;
    Ok(body)
}

fn explain(error: axum::Error) -> Problem {
    let has_too_many_frames = error.into_inner().is::<TooManyFrames>();
    let rule = match has_too_many_frames {
        true => "the body has too many small chunks; send larger ones",
        false => "the body is incomplete",
    };
    Problem::Malformed(rule.to_owned())
}

fn reject(app: &App, rejection: MemoryRejection) -> Problem {
    app.metrics.bodies_rejected.increment(rejection);
    Problem::NoBodyMemory
}

/// The part of the body that has arrived. Most bodies are one chunk, which is not copied.
struct BodyBuffer {
    bytes_max: usize,
    first_chunk: Bytes,
    all_bytes: Vec<u8>,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.first_chunk.len().max(self.all_bytes.len())
    }

    /// Reads in windows. Each window must receive the minimum number of bytes.
    async fn read(
        mut self,
        app: &App,
        body: &mut Body,
        reservation: &mut BodyReservation,
    ) -> Result<Bytes, Problem> {
        let rate = app.settings.limits.request_rate;
        loop {
            let length_before = self.len();
            let read_future = self.read_chunks(app, body, reservation);
            let Ok(result) = timeout(rate.window, read_future).await else {
                let bytes = self.len().saturating_sub(length_before);
                if rate.is_missed(u64::try_from(bytes).unwrap_or(u64::MAX)) {
                    return Err(Problem::BodyTimeout);
                }
                continue;
            };
            result?;
            let Self { first_chunk, all_bytes, .. } = self;
            return Ok(if all_bytes.is_empty() { first_chunk } else { all_bytes.into() });
        }
    }

    async fn read_chunks(
        &mut self,
        app: &App,
        body: &mut Body,
        reservation: &mut BodyReservation,
    ) -> Result<(), Problem> {
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame.map_err(explain)?.into_data() else { continue };
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
