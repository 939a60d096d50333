//! Reads the body of a request, with limits on length, time, rate and memory. Drains what the handler
//! did not read, and counts the memory of large responses.
//!
//! The HTTP library closes a connection without notice if the request body was not read to its end:
//! the client's next request on that connection fails. So a response is sent either after the rest
//! of the body was drained, or with `Connection: close`.

use std::{
    fmt::{Display, Formatter},
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
    routing::MethodFilter,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, StatusCode, Version,
    body::{Frame, SizeHint},
    header::{CONNECTION, EXPECT, HeaderValue},
};
use scrip_core::{Error, policy::rate_limit::ClientNetwork};
use tokio::time::timeout;

use crate::{
    app::{App, body_memory::BodyReservation},
    metrics::MemoryRejection,
    problem::Problem,
    route::{BodyKind, Route},
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

/// How much of an unread body is drained, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DrainLimits {
    bytes_max: usize,
    deadline: Duration,
}

const DRAIN: DrainLimits =
    DrainLimits { bytes_max: 16 * 1024 * 1024, deadline: Duration::from_secs(5) };

/// For a client above its rate limit: the length of a usual request.
const DRAIN_THROTTLED: DrainLimits =
    DrainLimits { bytes_max: 64 * 1024, deadline: Duration::from_millis(500) };

/// A body may have this many frames, and one more for each [`FRAME_BYTES_MIN`] bytes. Each chunk of a
/// chunked body is a frame, and a frame costs as much time as a kilobyte.
const FRAMES_MAX: usize = 1024;
const FRAME_BYTES_MIN: usize = 64;

/// The body has too many small frames. The rest of it is not read, so the connection is closed.
#[derive(Debug)]
pub(crate) struct TooManyFrames;

impl Display for TooManyFrames {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the body has too many small chunks")
    }
}

impl std::error::Error for TooManyFrames {}

/// A body with the number of its frames.
#[derive(Debug)]
struct CountedBody<B> {
    body: B,
    frames: usize,
    bytes: usize,
}

impl<B> CountedBody<B> {
    fn count(&mut self, frame: &Frame<Bytes>) {
        self.frames = self.frames.saturating_add(1);
        self.bytes = self.bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
    }

    fn has_too_many_frames(&self) -> bool {
        let frames_max = (self.bytes / FRAME_BYTES_MIN).saturating_add(FRAMES_MAX);
        self.frames > frames_max
    }
}

/// The half that the handler reads.
struct SharedBody<B>(Arc<Mutex<CountedBody<B>>>);

/// The half that the connection drains. `None` for a request without a body.
#[derive(Debug)]
pub struct UnreadBody<B> {
    body: Option<Arc<Mutex<CountedBody<B>>>>,
    version: Version,
    /// The client sends the body only after `100 Continue`.
    waits_for_continue: bool,
}

/// Splits a request into one for the handler and the half that drains its body.
pub fn split<B>(request: hyper::Request<B>) -> (hyper::Request<Body>, UnreadBody<B>)
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let version = request.version();
    let waits_for_continue = waits_for_continue(request.headers());
    if request.body().is_end_stream() {
        let unread = UnreadBody { body: None, version, waits_for_continue };
        return (request.map(|_| Body::empty()), unread);
    }
    let (head, body) = request.into_parts();
    let shared_body = Arc::new(Mutex::new(CountedBody { body, frames: 0, bytes: 0 }));
    let unread = UnreadBody { body: Some(Arc::clone(&shared_body)), version, waits_for_continue };
    (hyper::Request::from_parts(head, Body::new(SharedBody(shared_body))), unread)
}

fn waits_for_continue(headers: &HeaderMap) -> bool {
    let expect_header = headers.get(EXPECT).map(HeaderValue::as_bytes);
    expect_header.is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"))
}

impl<B> UnreadBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    /// Drains the unread part of the body, or marks the response as the last one of its connection.
    pub(crate) async fn drain_or_close(self, response: &mut Response) {
        let Some(body) = self.body else { return };
        let mut body = SharedBody(body);
        if body.is_end_stream() {
            return;
        }
        let limits = match response.status() {
            StatusCode::REQUEST_TIMEOUT => None,
            StatusCode::TOO_MANY_REQUESTS => Some(DRAIN_THROTTLED),
            _ => Some(DRAIN),
        };
        // Reading would make the client send a body that is not needed.
        let limits = limits.filter(|_| !self.waits_for_continue || response.status().is_success());
        let is_drained = match limits {
            Some(limits) => {
                timeout(limits.deadline, drain(&mut body, limits.bytes_max)).await.unwrap_or(false)
            }
            None => false,
        };
        // HTTP/2 resets the single stream, and has no such header.
        if !is_drained && self.version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Returns whether the body ended before the limit.
async fn drain<B>(body: &mut SharedBody<B>, bytes_max: usize) -> bool
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    let mut bytes = 0_usize;
    loop {
        match body.frame().await {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => {
                bytes = bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
                if bytes > bytes_max {
                    return false;
                }
            }
        }
    }
}

impl<B> HttpBody for SharedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.has_too_many_frames() {
            return Poll::Ready(Some(Err(TooManyFrames.into())));
        }
        let polled = Pin::new(&mut counted.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            counted.count(frame);
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.size_hint()
    }
}

/// Smaller responses are not counted: most of them fit into the buffers of the kernel.
const UNCOUNTED_BYTES: u64 = 64 * 1024;

/// The share of response memory of one client network.
pub(crate) struct ResponseBudget<'a> {
    app: &'a App,
    /// `None` for a trusted proxy, which forwards requests of many clients.
    network: Option<ClientNetwork>,
}

impl<'a> ResponseBudget<'a> {
    pub(crate) fn new(app: &'a App, address: IpAddr) -> Self {
        let network = (!app.settings.trusted_proxies.contains(address))
            .then(|| ClientNetwork::from_address(address));
        Self { app, network }
    }

    /// Fails if the network has used up its share. Called before a request is processed.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        self.app.memory.responses.check(self.network).map_err(|it| self.reject(it))
    }

    /// Counts a response. The response to a write is sent regardless of the limits, because the
    /// write has already taken effect.
    pub(crate) async fn count(
        &self,
        route: &Route,
        response: Response,
    ) -> Result<Response, Problem> {
        if response.body().size_hint().lower() <= UNCOUNTED_BYTES {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let broken = |_| Error::Internal("the body of a response is incomplete".into());
        let bytes = body.collect().await.map_err(broken)?.to_bytes();
        let memory = &self.app.memory.responses;
        let counted_bytes = if is_read(route) {
            memory.count(self.network, bytes).map_err(|it| self.reject(it))?
        } else {
            memory.count_always(self.network, bytes)
        };
        Ok(Response::from_parts(head, Body::from(counted_bytes)))
    }

    /// Counts the answer of a destination. It is sent regardless of the limits, because the call
    /// has taken effect.
    pub(crate) fn count_answer(&self, bytes: Bytes) -> Bytes {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length <= UNCOUNTED_BYTES {
            return bytes;
        }
        self.app.memory.responses.count_always(self.network, bytes)
    }

    fn reject(&self, rejection: MemoryRejection) -> Problem {
        self.app.metrics.responses_rejected.increment(rejection);
        Problem::NoResponseMemory
    }
}

/// Returns whether the request changes nothing, so that the client can repeat it.
fn is_read(route: &Route) -> bool {
    match route.body {
        BodyKind::ReadOnlyJson => true,
        BodyKind::None => route.method == MethodFilter::GET,
        BodyKind::Ignored | BodyKind::Json | BodyKind::OptionalJson | BodyKind::MergePatch => false,
    }
}
