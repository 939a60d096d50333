//! Drains the part of a request body that the handler did not read.
//!
//! The HTTP library closes a connection without notice if the request body was not read to its end:
//! the client's next request on that connection fails. So a response is sent either after the rest
//! of the body was drained, or with `Connection: close`.

use std::{
    error::Error,
    fmt::{Display, Formatter},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, StatusCode, Version,
    body::{Frame, SizeHint},
    header::{CONNECTION, EXPECT, HeaderValue},
};
use tokio::time::timeout;

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

impl Error for TooManyFrames {}

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
