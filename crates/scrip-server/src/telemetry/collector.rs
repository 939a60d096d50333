//! Sends batches of spans to a collector: OTLP, JSON over plain HTTP. Uses neither redirects nor a
//! proxy. A batch that cannot be sent is dropped.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet, time::timeout};

use crate::{directory_servers::address::HttpAddress, periodic_tasks::FailureLog};

/// Maximum duration of one request, with its connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Collector {
    address: HttpAddress,
    /// An idle connection, for the next batch.
    connection: Option<CollectorConnection>,
    failures: FailureLog,
}

#[derive(Debug)]
struct CollectorConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Ends the task of the connection when it is dropped.
    _task: JoinSet<hyper::Result<()>>,
}

impl Collector {
    pub(super) const fn new(address: HttpAddress) -> Self {
        let failures = FailureLog::warning(
            "sending traces to the collector failed; traces are dropped until the collector is \
             available again",
            "trace collector available again",
        );
        Self { address, connection: None, failures }
    }

    /// Returns whether the collector accepted the batch.
    pub(super) async fn send(&mut self, body: Vec<u8>) -> bool {
        let result = timeout(REQUEST_TIMEOUT, self.post(body)).await;
        self.failures.record(&result.unwrap_or_else(|_| Err(anyhow!("timeout"))));
        !self.failures.is_failing()
    }

    async fn post(&mut self, body: Vec<u8>) -> anyhow::Result<()> {
        // Taken out, so that a request that fails or times out closes its connection.
        let idle = match self.connection.take() {
            Some(mut it) => it.sender.ready().await.is_ok().then_some(it),
            None => None,
        };
        let mut connection = match idle {
            Some(it) => it,
            None => self.connect().await?,
        };
        let request = Request::post(&self.address.path)
            .header(HOST, &self.address.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))?;
        let (head, body) = connection.sender.send_request(request).await?.into_parts();
        // Read the response completely, so that the connection can be reused.
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        body.map_err(|error| anyhow!("reading the response: {error}"))?;
        self.connection = Some(connection);
        ensure!(head.status.is_success(), "HTTP status {}", head.status.as_u16());
        Ok(())
    }

    async fn connect(&self) -> anyhow::Result<CollectorConnection> {
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        stream.set_nodelay(true)?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        task.spawn(connection);
        Ok(CollectorConnection { sender, _task: task })
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const SUCCESS: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    async fn listen() -> (TcpListener, Collector) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        (listener, Collector::new(HttpAddress::parse(&url, "http", 80).unwrap()))
    }

    /// Reads one request with the body `{}` and responds.
    async fn respond(stream: &mut TcpStream, response: &str) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n{}") {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0, "a request");
        }
        stream.write_all(response.as_bytes()).await.unwrap();
    }

    async fn send_and_respond(
        collector: &mut Collector,
        stream: &mut TcpStream,
        response: &str,
    ) -> bool {
        tokio::join!(collector.send(b"{}".to_vec()), respond(stream, response)).0
    }

    #[tokio::test]
    async fn connection_is_reused_and_replaced_after_the_collector_closed_it() {
        let (listener, mut collector) = listen().await;
        let serve_two_connections = async {
            let (mut first, _) = listener.accept().await.unwrap();
            respond(&mut first, SUCCESS).await;
            respond(&mut first, SUCCESS).await;
            drop(first);
            respond(&mut listener.accept().await.unwrap().0, SUCCESS).await;
        };
        let send_three_batches = async {
            for _ in 0..3 {
                assert!(collector.send(b"{}".to_vec()).await);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::join!(serve_two_connections, send_three_batches);
    }

    #[tokio::test]
    async fn only_success_statuses_are_successes() {
        let (listener, mut collector) = listen().await;
        let accept = async { listener.accept().await.unwrap().0 };
        let respond_first = async {
            let mut stream = accept.await;
            respond(&mut stream, SUCCESS).await;
            stream
        };
        let (is_sent, mut stream) = tokio::join!(collector.send(b"{}".to_vec()), respond_first);
        assert!(is_sent);
        // A redirect to this listener would wait for a second request.
        for status in ["302 Found\r\nLocation: /v1/traces", "404 Not Found", "503 Unavailable"] {
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            assert!(!send_and_respond(&mut collector, &mut stream, &response).await, "{status}");
        }
        assert!(send_and_respond(&mut collector, &mut stream, SUCCESS).await);
    }

    #[tokio::test]
    async fn large_response_closes_the_connection() {
        let (listener, mut collector) = listen().await;
        let respond_endlessly = async {
            let mut stream = listener.accept().await.unwrap().0;
            respond(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").await;
            let mut written = 0_usize;
            while stream.write_all(&[b' '; 1024]).await.is_ok() {
                written += 1024;
            }
            written
        };
        let is_sent = collector.send(b"{}".to_vec());
        let (is_sent, written) = tokio::join!(is_sent, respond_endlessly);
        assert!(!is_sent && collector.connection.is_none());
        assert!(written < 100_000_000, "{written}");
    }

    #[tokio::test]
    async fn silent_collector_fails_after_three_seconds() {
        let (_listener, mut collector) = listen().await;
        let started = tokio::time::Instant::now();
        assert!(!collector.send(b"{}".to_vec()).await);
        assert_eq!(started.elapsed().as_secs(), 3);
        assert!(collector.connection.is_none());
    }
}
