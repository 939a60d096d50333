//! HTTP/2. Requests of one scope share a connection, which a task drives.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response,
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::time::{Instant, Sleep};

use crate::{
    connect::stream::EgressStream,
    connection::{ExchangeFailure, OutgoingRequest, poll_deadline},
    error::{SendError, SendFailure},
};

/// Data that a destination may send ahead, so that many slow readers need little memory.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const SEND_BUFFER_MAX: usize = 128 * 1024;
/// A dead connection fails after the sum of both.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Servers commonly accept a hundred requests at the same time. More need another connection.
const STREAMS_MAX: usize = 100;

/// A shared connection. Each request in progress has a clone.
#[derive(Debug, Clone)]
pub(crate) struct Http2Connection {
    sender: SendRequest<Full<Bytes>>,
    clones: Arc<()>,
    pub(crate) opened_at: Instant,
}

impl Http2Connection {
    pub(crate) async fn open(
        stream: EgressStream,
        head_bytes_max: usize,
    ) -> Result<Self, SendFailure> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER_MAX)
            .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| SendFailure::from_http_error(&error))?;
        // Ends when the last sender and the last stream end.
        drop(tokio::spawn(connection));
        Ok(Self { sender, clones: Arc::new(()), opened_at: Instant::now() })
    }

    /// Whether the connection can take another request.
    pub(crate) fn has_place(&self) -> bool {
        Arc::strong_count(&self.clones) <= STREAMS_MAX
    }

    /// Whether no request is in progress, for the only clone in the pool.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.clones) == 1
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends the request and reads the head of the response. Other requests write to the same
    /// stream, so only a request that the connection did not take is certainly not sent.
    pub(crate) async fn exchange(
        &mut self,
        request: OutgoingRequest,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<Response<Incoming>, ExchangeFailure> {
        let mut response = pin!(self.sender.try_send_request(request));
        let result = poll_fn(|context| match response.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => poll_deadline(deadline.as_mut(), context).map(|()| None),
        });
        match result.await {
            Some(Ok(response)) => Ok(response),
            Some(Err(mut error)) => {
                let request = error.take_message();
                let failure = SendFailure::from_http_error(&error.into_error());
                let error = match request {
                    Some(_) => SendError::not_sent(failure),
                    None => SendError::maybe_sent(failure),
                };
                Err(ExchangeFailure { error, request })
            }
            None => Err(ExchangeFailure {
                error: SendError::maybe_sent(SendFailure::Timeout),
                request: None,
            }),
        }
    }
}
