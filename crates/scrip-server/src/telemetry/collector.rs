//! Sends batches of spans to a collector: OTLP, JSON over plain HTTP. Uses neither redirects nor a
//! proxy. A batch that cannot be sent is dropped.

use std::time::Duration;

use anyhow::{anyhow, ensure};
use http_body_util::Full;
use hyper::{Method, header::CONTENT_TYPE};
use scrip_egress::configured::{ConnectOptions, ServerAddress, connect};
use tokio::time::timeout;

use crate::periodic_tasks::FailureLog;

/// Maximum duration of one request, with its connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Collector {
    address: ServerAddress,
    failures: FailureLog,
}

impl Collector {
    pub(super) const fn new(address: ServerAddress) -> Self {
        let failures = FailureLog::warning(
            "sending traces to the collector failed; traces are dropped until the collector is \
             available again",
            "trace collector available again",
        );
        Self { address, failures }
    }

    /// Returns whether the collector accepted the batch.
    pub(super) async fn send(&mut self, body: Vec<u8>) -> bool {
        let result = timeout(REQUEST_TIMEOUT, self.post(body)).await;
        self.failures.record(&result.unwrap_or_else(|_| Err(anyhow!("timeout"))));
        !self.failures.is_failing()
    }

    async fn post(&self, body: Vec<u8>) -> anyhow::Result<()> {
        let Self { address, .. } = self;
        let options =
            ConnectOptions { tls: None, is_allowed: |_| true, address_timeout: REQUEST_TIMEOUT };
        let connection = connect(address, &options).await?;
        let request = address
            .request(Method::POST, &address.path)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))?;
        let response = connection.exchange(request, RESPONSE_BYTES_MAX).await?;
        ensure!(response.status.is_success(), "HTTP status {}", response.status.as_u16());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    const SUCCESS: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    async fn listen() -> (TcpListener, Collector) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        (listener, Collector::new(ServerAddress::parse(&url).unwrap()))
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
        listener: &TcpListener,
        response: &str,
    ) -> bool {
        let respond = async {
            let mut stream = listener.accept().await.unwrap().0;
            respond(&mut stream, response).await;
            stream
        };
        tokio::join!(collector.send(b"{}".to_vec()), respond).0
    }

    #[tokio::test]
    async fn only_success_statuses_are_successes() {
        let (listener, mut collector) = listen().await;
        assert!(send_and_respond(&mut collector, &listener, SUCCESS).await);
        // A redirect to this listener would wait for a second request.
        for status in ["302 Found\r\nLocation: /v1/traces", "404 Not Found", "503 Unavailable"] {
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            assert!(!send_and_respond(&mut collector, &listener, &response).await, "{status}");
        }
        assert!(send_and_respond(&mut collector, &listener, SUCCESS).await);
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
        assert!(!is_sent);
        assert!(written < 100_000_000, "{written}");
    }

    #[tokio::test]
    async fn silent_collector_fails_after_three_seconds() {
        let (_listener, mut collector) = listen().await;
        let started = tokio::time::Instant::now();
        assert!(!collector.send(b"{}".to_vec()).await);
        assert_eq!(started.elapsed().as_secs(), 3);
    }
}
