//! Bodies of responses. The body has the same deadline as the request, and its connection goes back
//! to the pool at the end.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use crate::{
    connection::{http1::Http1Connection, http2::Http2Connection, poll_deadline},
    error::SendFailure,
    limiter::KeyedPermit,
    pool::{ConnectionPool, PoolKey},
    scope::TenantKey,
};

/// Why a body is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the response of the destination is too large")]
    TooLarge,
    #[error("the destination did not send its response in time")]
    Timeout,
    #[error("the destination closed the connection within its response")]
    Closed,
    #[error("the response of the destination is malformed")]
    Malformed,
}

/// The connection that delivers a body.
pub(crate) enum BodyConnection {
    Http1(Box<Http1Connection>),
    Http2 {
        _connection: Http2Connection,
    },
    /// Everything is received.
    None,
}

/// The place of a request within the limits, until its body ends.
#[derive(Debug)]
pub(crate) struct RequestPermits {
    _destination: KeyedPermit<Arc<PoolKey>>,
    _tenant: KeyedPermit<TenantKey>,
}

impl RequestPermits {
    pub(crate) fn new(
        destination: KeyedPermit<Arc<PoolKey>>,
        tenant: KeyedPermit<TenantKey>,
    ) -> Self {
        Self { _destination: destination, _tenant: tenant }
    }
}

/// The body of a response. Trailers are dropped.
pub struct EgressBody {
    incoming: Incoming,
    connection: BodyConnection,
    pool: Arc<ConnectionPool>,
    key: Arc<PoolKey>,
    permits: Option<RequestPermits>,
    deadline: Pin<Box<Sleep>>,
    /// Bytes that may still be received.
    remaining: u64,
    has_failed: bool,
}

impl EgressBody {
    pub(crate) fn new(
        incoming: Incoming,
        connection: BodyConnection,
        pool: Arc<ConnectionPool>,
        key: Arc<PoolKey>,
        permits: RequestPermits,
        deadline: Pin<Box<Sleep>>,
    ) -> Self {
        let mut body = Self {
            incoming,
            connection,
            pool,
            key,
            permits: Some(permits),
            deadline,
            remaining: u64::MAX,
            has_failed: false,
        };
        if body.incoming.is_end_stream() {
            body.finish();
        }
        body
    }

    /// Limits the size: a larger body ends with [`BodyError::TooLarge`].
    #[must_use]
    pub fn with_max_bytes(mut self, bytes_max: u64) -> Self {
        self.remaining = bytes_max;
        self
    }

    /// Reads the body completely.
    /// Errors: the body is larger than `bytes_max`, incomplete, or too slow.
    pub async fn collect(self, bytes_max: usize) -> Result<Bytes, BodyError> {
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let mut body = self.with_max_bytes(limit);
        let expected = body.incoming.size_hint().lower();
        if expected > limit {
            return Err(BodyError::TooLarge);
        }
        let mut first = Bytes::new();
        let mut joined: Option<BytesMut> = None;
        while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            let Ok(data) = frame?.into_data() else { continue };
            match &mut joined {
                Some(it) => it.extend_from_slice(&data),
                // Most bodies are one frame, which needs no copy.
                None if first.is_empty() => first = data,
                None => {
                    let capacity = usize::try_from(expected).unwrap_or(bytes_max);
                    let mut it = BytesMut::with_capacity(capacity.max(first.len() + data.len()));
                    it.extend_from_slice(&first);
                    it.extend_from_slice(&data);
                    joined = Some(it);
                }
            }
        }
        Ok(joined.map_or(first, BytesMut::freeze))
    }

    /// Returns the connection to the pool, and ends the use of the limits.
    fn finish(&mut self) {
        match std::mem::replace(&mut self.connection, BodyConnection::None) {
            BodyConnection::Http1(connection) => self.pool.put_http1(&self.key, connection),
            BodyConnection::Http2 { .. } | BodyConnection::None => (),
        }
        self.permits = None;
    }

    /// Closes the connection.
    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.connection = BodyConnection::None;
        self.permits = None;
        self.has_failed = true;
        Poll::Ready(Some(Err(error)))
    }

    fn poll_incoming(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = loop {
            match ready!(Pin::new(&mut self.incoming).poll_frame(context)) {
                None => {
                    self.finish();
                    return Poll::Ready(None);
                }
                Some(Err(error)) => return self.fail(BodyError::from_http_error(&error)),
                // Trailers are headers that no filter of headers has seen.
                Some(Ok(frame)) if frame.is_trailers() => (),
                Some(Ok(frame)) => break frame,
            }
        };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let Some(remaining) = self.remaining.checked_sub(length) else {
            return self.fail(BodyError::TooLarge);
        };
        self.remaining = remaining;
        if self.incoming.is_end_stream() {
            self.finish();
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Body for EgressBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = self.get_mut();
        if body.has_failed {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = body.poll_incoming(context) {
            return Poll::Ready(frame);
        }
        if let BodyConnection::Http1(connection) = &mut body.connection {
            if connection.poll_connection(context).is_ready() {
                body.connection = BodyConnection::None;
            }
            // The connection may have received a frame.
            if let Poll::Ready(frame) = body.poll_incoming(context) {
                return Poll::Ready(frame);
            }
        }
        match poll_deadline(body.deadline.as_mut(), context) {
            Poll::Ready(()) => body.fail(BodyError::Timeout),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.has_failed || self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl BodyError {
    fn from_http_error(error: &hyper::Error) -> Self {
        match SendFailure::from_http_error(error) {
            SendFailure::Malformed => Self::Malformed,
            SendFailure::Timeout => Self::Timeout,
            SendFailure::InvalidRequest
            | SendFailure::Rejected(_)
            | SendFailure::Overloaded
            | SendFailure::Lookup
            | SendFailure::Connect(_)
            | SendFailure::ConnectTimeout
            | SendFailure::ForwardProxy
            | SendFailure::Tls(_)
            | SendFailure::Closed => Self::Closed,
        }
    }
}

impl fmt::Debug for EgressBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EgressBody").finish_non_exhaustive()
    }
}
