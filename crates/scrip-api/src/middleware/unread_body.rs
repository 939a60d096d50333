//! A request body that the connection can take back when the answer is ready.
//!
//! The HTTP library closes a connection whose request body was not read to its end, without notice:
//! the client's next request on that connection fails. So every answer either comes after the rest
//! of the body was drained, or announces the end of the connection with `Connection: close`.

use std::{
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

/// How much of a body is read only to be dropped, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DrainLimits {
    bytes_max: usize,
    deadline: Duration,
}

const DRAIN: DrainLimits =
    DrainLimits { bytes_max: 16 * 1024 * 1024, deadline: Duration::from_secs(5) };

/// For a client above its rate limit: as much as a request usually has.
const DRAIN_THROTTLED: DrainLimits =
    DrainLimits { bytes_max: 64 * 1024, deadline: Duration::from_millis(500) };

/// The half that the handler reads.
struct SharedBody<B>(Arc<Mutex<B>>);

/// The half that the connection keeps. Without a body there is nothing to keep.
#[derive(Debug)]
pub struct UnreadBody<B> {
    body: Option<Arc<Mutex<B>>>,
    version: Version,
    /// The client sends the body only when asked for it.
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
    let shared = Arc::new(Mutex::new(body));
    let unread = UnreadBody { body: Some(Arc::clone(&shared)), version, waits_for_continue };
    (hyper::Request::from_parts(head, Body::new(SharedBody(shared))), unread)
}

fn waits_for_continue(headers: &HeaderMap) -> bool {
    let expected = headers.get(EXPECT).map(HeaderValue::as_bytes);
    expected.is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"))
}

impl<B> UnreadBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    /// Drains what the handler left of the body, or marks the answer as the connection's last.
    pub async fn drain_or_close(self, response: &mut Response) {
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
        // Reading would ask for a body that is not wanted.
        let limits = limits.filter(|_| !self.waits_for_continue || response.status().is_success());
        let drained = match limits {
            Some(limits) => {
                timeout(limits.deadline, drain(&mut body, limits.bytes_max)).await.unwrap_or(false)
            }
            None => false,
        };
        // HTTP/2 resets the one stream, and has no such header.
        if !drained && self.version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

/// Whether the end of the body came before the limit.
async fn drain<B>(body: &mut SharedBody<B>, bytes_max: usize) -> bool
where
    B: HttpBody<Data = Bytes> + Unpin,
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

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for SharedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}
