//! Peers that are slow, endless, oversized or not HTTP, for the sources with a network.

use std::time::Duration;

use scrip_testing::process::unlock_sources::fake_peer::start_raw_peer;
use scrip_unlock::{AwsKms, AwsKmsSettings, Transit, TransitSettings, UnlockSource};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    aws_kms,
    support::{assert_error, context, fixed_clock, vault_key},
    transit,
};

/// For peers that would never end.
const SHORT_DEADLINE: Duration = Duration::from_millis(300);
/// Longer than any answer takes, also on a machine under load.
const LONG_DEADLINE: Duration = Duration::from_secs(60);

fn sources(url: &str, deadline: Duration) -> Vec<Box<dyn UnlockSource>> {
    let aws_settings = AwsKmsSettings { deadline, ..aws_kms::settings(url) };
    let transit_settings = TransitSettings { deadline, ..transit::settings(url) };
    vec![
        Box::new(AwsKms::new(aws_settings, fixed_clock()).unwrap()),
        Box::new(Transit::new(transit_settings).unwrap()),
    ]
}

/// Each source must end with this error.
async fn assert_failure(url: &str, deadline: Duration, parts: &[&str]) {
    for source in sources(url, deadline) {
        let (context, key) = (context("test"), vault_key());
        let result = timeout(2 * LONG_DEADLINE, source.wrap(&context, &key)).await;
        assert_error(result.unwrap(), "Unavailable", parts);
    }
}

async fn read_request(stream: &mut TcpStream) {
    let mut buffer = vec![0; 65_536];
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
}

/// Starts a peer that answers a request with these bytes, and then keeps the connection open.
async fn start_peer_with_answer(answer: &'static [u8], open_for: Duration) -> String {
    start_raw_peer(move |mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(answer).await.unwrap();
        sleep(open_for).await;
    })
    .await
}

async fn write_forever(stream: &mut TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {}
}

#[tokio::test]
async fn peer_that_never_answers_ends_at_the_deadline() {
    let url = start_raw_peer(|stream| async move {
        sleep(4 * LONG_DEADLINE).await;
        drop(stream);
    })
    .await;
    assert_failure(&url, SHORT_DEADLINE, &["has not answered within 300 ms"]).await;
}

#[tokio::test]
async fn peer_that_answers_byte_by_byte_ends_at_the_deadline() {
    let url = start_raw_peer(|mut stream| async move {
        read_request(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
        stream.write_all(head).await.unwrap();
        while stream.write_all(b" ").await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_failure(&url, SHORT_DEADLINE, &["has not answered within 300 ms"]).await;
}

#[tokio::test]
async fn endless_body_is_cut_at_the_limit() {
    let url = start_raw_peer(|mut stream| async move {
        read_request(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        write_forever(&mut stream, format!("1000\r\n{}\r\n", "x".repeat(4096)).as_bytes()).await;
    })
    .await;
    assert_failure(&url, LONG_DEADLINE, &["more than 65536 bytes"]).await;
}

#[tokio::test]
async fn body_that_announces_too_many_bytes_is_not_read() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 65537\r\n\r\n";
    let url = start_peer_with_answer(answer, 4 * LONG_DEADLINE).await;
    assert_failure(&url, LONG_DEADLINE, &["more than 65536 bytes"]).await;
}

#[tokio::test]
async fn endless_headers_are_cut() {
    let url = start_raw_peer(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await.unwrap();
        write_forever(&mut stream, &[b'x'; 4096]).await;
    })
    .await;
    assert_failure(&url, LONG_DEADLINE, &["the answer is not HTTP"]).await;
}

#[tokio::test]
async fn peer_that_is_not_http_or_hangs_up_is_explained() {
    let url = start_raw_peer(|mut stream| async move {
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").await.unwrap();
        sleep(Duration::from_secs(1)).await;
    })
    .await;
    assert_failure(&url, LONG_DEADLINE, &["failed: "]).await;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345";
    let url = start_peer_with_answer(answer, Duration::ZERO).await;
    assert_failure(&url, LONG_DEADLINE, &["failed: "]).await;
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let answer = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\n\
        content-length: 0\r\n\r\n";
    let url = start_peer_with_answer(answer, Duration::ZERO).await;
    assert_failure(&url, LONG_DEADLINE, &["redirects to another server (status 307)"]).await;
}
