//! HTTP/1.1. The future that needs the response also drives the connection: no task is involved, and
//! a cancelled request closes its connection.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    body::Incoming,
    client::conn::{
        TrySendError,
        http1::{self, Connection, SendRequest},
    },
};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Sleep};

use crate::{
    connect::stream::{ByteCounts, EgressStream},
    connection::{ExchangeFailure, OutgoingRequest, poll_deadline},
    error::{SendError, SendFailure},
};

/// Fields in the head of a response.
const HEADERS_MAX: usize = 256;
/// The library accepts no smaller buffer.
const BUFFER_BYTES_MIN: usize = 8192;
/// The size of all interim responses together, in heads of the largest size.
const INTERIM_HEADS_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct Http1Connection {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<EgressStream>, Full<Bytes>>,
    counts: ByteCounts,
    /// The bytes that may arrive before the head of the final response. A destination could send
    /// interim responses (`100 Continue`) without end, which cost processor time.
    interim_bytes_max: u64,
    pub(crate) opened_at: Instant,
}

impl Http1Connection {
    pub(crate) async fn open(
        stream: EgressStream,
        head_bytes_max: usize,
    ) -> Result<Box<Self>, SendFailure> {
        let counts = stream.byte_counts();
        let mut builder = http1::Builder::new();
        // Vectored writes avoid a copy of the body, which may contain card numbers.
        builder.writev(true).max_headers(HEADERS_MAX);
        builder.max_header_size(head_bytes_max).max_buf_size(head_bytes_max.max(BUFFER_BYTES_MIN));
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| SendFailure::from_http_error(&error))?;
        let interim_bytes_max = u64::try_from(head_bytes_max.saturating_mul(INTERIM_HEADS_MAX));
        let interim_bytes_max = interim_bytes_max.unwrap_or(u64::MAX);
        let opened_at = Instant::now();
        Ok(Box::new(Self { sender, connection, counts, interim_bytes_max, opened_at }))
    }

    /// Sends the request and reads the head of the response. Returns the connection for the body
    /// unless it is closed.
    pub(crate) async fn exchange(
        mut self: Box<Self>,
        request: OutgoingRequest,
        mut deadline: Pin<&mut Sleep>,
    ) -> Result<(Response<Incoming>, Option<Box<Self>>), ExchangeFailure> {
        let (counts, interim_bytes_max) = (self.counts.clone(), self.interim_bytes_max);
        let (written_before, read_before) = (counts.written(), counts.read());
        let mut response = pin!(self.sender.try_send_request(request));
        let mut connection = Some(self);
        let result = poll_fn(|context| {
            if let Some(it) = &mut connection
                && it.poll_connection(context).is_ready()
            {
                // A closed connection returns the request if it did not take it.
                connection = None;
            }
            if let Poll::Ready(result) = response.as_mut().poll(context) {
                let failed = |mut error: TrySendError<OutgoingRequest>| {
                    let request = error.take_message();
                    (SendFailure::from_http_error(&error.into_error()), request)
                };
                return Poll::Ready(result.map_err(failed));
            }
            if poll_deadline(deadline.as_mut(), context).is_ready() {
                return Poll::Ready(Err((SendFailure::Timeout, None)));
            }
            if counts.read().saturating_sub(read_before) > interim_bytes_max {
                return Poll::Ready(Err((SendFailure::Malformed, None)));
            }
            Poll::Pending
        });
        let (failure, request) = match result.await {
            Ok(it) if it.status() == StatusCode::SWITCHING_PROTOCOLS => {
                (SendFailure::Malformed, None)
            }
            Ok(it) => return Ok((it, connection)),
            Err(failure) => failure,
        };
        // Nothing can leave any more.
        drop(connection);
        let has_left = counts.written() != written_before;
        let error =
            if has_left { SendError::maybe_sent(failure) } else { SendError::not_sent(failure) };
        Err(ExchangeFailure { error, request: request.filter(|_| !has_left) })
    }

    /// Ready when the connection is closed.
    pub(crate) fn poll_connection(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The other futures return the error.
        Pin::new(&mut self.connection).poll(context).map(drop)
    }

    /// Whether the next request can use the connection. Also detects that the destination closed it.
    pub(crate) fn is_reusable(&mut self) -> bool {
        // An idle connection wakes no task.
        let mut context = Context::from_waker(Waker::noop());
        self.poll_connection(&mut context).is_pending() && self.sender.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::Request;
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
        time::sleep,
    };

    use super::*;
    use crate::{connect::stream::CountedTcp, error::Delivery};

    fn request() -> OutgoingRequest {
        let request = Request::post("/").header("host", "peer.example");
        request.body(Full::new(Bytes::from_static(b"card"))).unwrap()
    }

    async fn connect() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn connection_that_is_closed_before_the_first_byte_returns_the_request() {
        let (client, server) = connect().await;
        drop(server);
        // The end of the connection has arrived.
        client.readable().await.unwrap();
        let stream = EgressStream::Plain(CountedTcp::new(client));
        let connection = Http1Connection::open(stream, 10_000).await.unwrap();
        let mut deadline = pin!(sleep(Duration::from_secs(60)));
        let failure = connection.exchange(request(), deadline.as_mut()).await.unwrap_err();
        assert_eq!(failure.error.delivery, Delivery::NotSent);
        assert!(failure.request.is_some());
    }

    #[tokio::test]
    async fn connection_that_is_closed_after_the_first_byte_keeps_the_request() {
        let (client, mut server) = connect().await;
        let stream = EgressStream::Plain(CountedTcp::new(client));
        let connection = Http1Connection::open(stream, 10_000).await.unwrap();
        let mut deadline = pin!(sleep(Duration::from_secs(60)));
        let (result, _) = tokio::join!(connection.exchange(request(), deadline.as_mut()), async {
            server.read_u8().await.unwrap();
            drop(server);
        });
        let failure = result.unwrap_err();
        assert_eq!(failure.error.delivery, Delivery::MaybeSent);
        assert!(failure.request.is_none());
    }

    #[tokio::test]
    async fn connection_with_unexpected_bytes_is_not_reusable() {
        let (client, server) = connect().await;
        let stream = EgressStream::Plain(CountedTcp::new(client));
        let mut connection = Http1Connection::open(stream, 10_000).await.unwrap();
        assert!(connection.is_reusable());
        server.try_write(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        while connection.is_reusable() {
            sleep(Duration::from_millis(2)).await;
        }
    }
}
