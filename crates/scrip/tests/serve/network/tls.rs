//! TLS with both HTTP versions: handshakes, certificate reloads, deadlines and draining.

use std::{fs, io::Read, net::TcpStream, process::Command, thread::sleep, time::Duration};

use bytes::Bytes;
use hyper::{Request, Version};
use rustls::pki_types::CertificateDer;
use scrip_testing::process::{
    harness::{ProcessHarness, RunningServer, becomes_true},
    terminate, wait,
};
use tokio::{io::AsyncReadExt, runtime::Runtime, time::timeout};

use crate::network::tls_client::{
    TIMEOUT, TestBody, body_text, channel_body, connect, create_certificate, hold_open, send,
    with_tls,
};

const CARD: &str = r#"{"type":"card","data":{"number":"4242424242424242"}}"#;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn post(key: &str, body: TestBody, protocol: &str) -> Request<TestBody> {
    // HTTP/2 has the host in the URI, HTTP/1.1 in a header.
    let uri = if protocol == "h2" { "https://localhost/tokens" } else { "/tokens" };
    let request = Request::post(uri).header("bt-api-key", key).header("host", "localhost");
    request.header("content-type", "application/json").body(body).unwrap()
}

/// Returns whether the server now presents this certificate.
pub(crate) fn is_certificate_served(
    runtime: &Runtime,
    server: &RunningServer,
    certificate: &CertificateDer<'static>,
) -> bool {
    runtime.block_on(connect(server.address, certificate, "h2")).is_ok()
}

#[test]
fn http1_and_http2_are_served_over_tls() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = with_tls(process);
    let certificate = create_certificate(&process);
    let server = process.serve();
    assert!(server.url.starts_with("https://"), "{}", server.url);
    process.wait_for_log("the vault is open");
    for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        runtime().block_on(async {
            let stream = connect(server.address, &certificate, protocol).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
            let (sender, body) = channel_body();
            sender.send(Bytes::from(CARD)).await.unwrap();
            drop(sender);
            let response = send(stream, post(&key, body, protocol)).await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (201, version));
            assert!(response.headers().contains_key("bt-trace-id"));
            assert!(body_text(response).await.contains("4242424242424242"));
        });
    }
    // Plain HTTP gets no response.
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = TcpStream::connect(server.address).unwrap();
    std::io::Write::write_all(&mut stream, request).unwrap();
    let mut response = Vec::new();
    drop(stream.read_to_end(&mut response));
    assert!(!response.starts_with(b"HTTP"), "{response:?}");
}

#[test]
fn unusable_certificate_prevents_start() {
    let process = with_tls(ProcessHarness::initialized(crate::SCRIP));
    process.assert_fails(&["serve"], "tls.certificate");
    create_certificate(&process);
    let own_key = fs::read(process.path("key.pem")).unwrap();
    create_certificate(&process);
    fs::write(process.path("key.pem"), own_key).unwrap();
    process.assert_fails(&["serve"], "do not match");
}

#[test]
fn changed_certificate_is_loaded_and_broken_one_is_ignored() {
    let process = with_tls(ProcessHarness::initialized(crate::SCRIP));
    let first = create_certificate(&process);
    let server = process.serve();
    let runtime = runtime();
    assert!(is_certificate_served(&runtime, &server, &first));
    let second_certificate = create_certificate(&process);
    let is_served = becomes_true(|| is_certificate_served(&runtime, &server, &second_certificate));
    assert!(is_served, "the changed certificate is not served");
    assert!(!is_certificate_served(&runtime, &server, &first));

    fs::write(process.path("cert.pem"), "nothing").unwrap();
    process.wait_for_log("the old one stays");
    assert!(is_certificate_served(&runtime, &server, &second_certificate));
    let third_certificate = create_certificate(&process);
    let is_served = becomes_true(|| is_certificate_served(&runtime, &server, &third_certificate));
    assert!(is_served, "it recovers");
}

#[test]
fn sighup_reloads_the_certificate() {
    let process = with_tls(ProcessHarness::initialized(crate::SCRIP))
        .with_variable("SCRIP_TLS_RELOAD_SECONDS", "86400");
    let first = create_certificate(&process);
    let server = process.serve();
    let runtime = runtime();
    assert!(is_certificate_served(&runtime, &server, &first));
    let second_certificate = create_certificate(&process);
    let hang_up = || {
        let kill_status =
            Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status();
        assert!(kill_status.unwrap().success());
    };
    hang_up();
    assert!(becomes_true(|| is_certificate_served(&runtime, &server, &second_certificate)));
    fs::write(process.path("key.pem"), "nothing").unwrap();
    hang_up();
    process.wait_for_log("the old one stays");
    assert!(is_certificate_served(&runtime, &server, &second_certificate));
}

#[test]
fn silent_tls_clients_are_disconnected() {
    let process = with_tls(ProcessHarness::initialized(crate::SCRIP))
        .with_variable("SCRIP_SERVER_HEADER_DEADLINE_SECONDS", "2");
    let process = process.with_variable("SCRIP_SERVER_CONNECTIONS_MAX", "2");
    let certificate = create_certificate(&process);
    let server = process.serve();
    // Silent clients take every slot.
    let silent_connections: Vec<_> =
        (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for mut stream in silent_connections {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).expect("the server closes the connection in time"), 0);
    }
    // A handshake does not extend the deadline, regardless of the negotiated protocol.
    for protocol in ["http/1.1", "h2"] {
        runtime().block_on(async {
            let mut stream = connect(server.address, &certificate, protocol).await.unwrap();
            let read_result = timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await;
            assert!(read_result.is_ok(), "{protocol}: the connection is not closed in time");
        });
    }
}

#[test]
fn slow_request_is_not_disconnected_as_idle() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = with_tls(process).with_variable("SCRIP_SERVER_HEADER_DEADLINE_SECONDS", "2");
    let process = process.with_variable("SCRIP_SERVER_DRAIN_DEADLINE_SECONDS", "1");
    let certificate = create_certificate(&process);
    let server = process.serve();
    process.wait_for_log("the vault is open");
    runtime().block_on(async {
        let stream = connect(server.address, &certificate, "h2").await.unwrap();
        let (sender, body) = channel_body();
        let send_slowly = async {
            let (first_part, second_part) = CARD.split_at(7);
            sender.send(Bytes::from(first_part)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(6)).await;
            sender.send(Bytes::from(second_part)).await.unwrap();
            drop(sender);
        };
        let (response, ()) = tokio::join!(send(stream, post(&key, body, "h2")), send_slowly);
        assert_eq!(response.unwrap().status(), 201);
    });
}

/// Requests in flight at shutdown are completed with both protocols.
#[test]
fn requests_in_flight_are_completed_during_tls_shutdown() {
    for protocol in ["http/1.1", "h2"] {
        let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
        let process = with_tls(process);
        let certificate = create_certificate(&process);
        let mut server = process.serve();
        process.wait_for_log("the vault is open");
        let runtime = runtime();
        // Neither a connection without a handshake nor an idle one blocks the shutdown.
        let _silent = TcpStream::connect(server.address).unwrap();
        let _idle = runtime.block_on(async {
            let stream = connect(server.address, &certificate, protocol).await.unwrap();
            hold_open(stream).await.unwrap()
        });
        let (sender, body) = channel_body();
        let (first_part, second_part) = CARD.split_at(7);
        let stream = runtime.block_on(connect(server.address, &certificate, protocol)).unwrap();
        let pending_request = runtime.spawn(send(stream, post(&key, body, protocol)));
        sender.blocking_send(Bytes::from(first_part)).unwrap();
        sleep(Duration::from_millis(500));
        terminate(&server.child);
        let is_closed = becomes_true(|| TcpStream::connect(server.address).is_err());
        assert!(is_closed, "the server still listens");
        let is_running = server.child.try_wait().unwrap().is_none();
        assert!(is_running, "the server stopped before its requests completed");
        let response = runtime.block_on(async {
            sender.send(Bytes::from(second_part)).await.unwrap();
            drop(sender);
            let response = pending_request.await.unwrap().unwrap();
            (response.status().as_u16(), body_text(response).await)
        });
        assert_eq!(response.0, 201, "{protocol}");
        let status = wait(&mut server.child, Duration::from_secs(20)).expect("the server stops");
        assert_eq!(status.code(), Some(0));
    }
}

#[test]
fn endless_tls_request_does_not_block_shutdown() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let process = with_tls(process).with_variable("SCRIP_SERVER_DRAIN_DEADLINE_SECONDS", "1");
    let certificate = create_certificate(&process);
    let mut server = process.serve();
    process.wait_for_log("the vault is open");
    let runtime = runtime();
    let (sender, body) = channel_body();
    let stream = runtime.block_on(connect(server.address, &certificate, "h2")).unwrap();
    let _pending = runtime.spawn(send(stream, post(&key, body, "h2")));
    sender.blocking_send(Bytes::from("{")).unwrap();
    sleep(Duration::from_millis(500));
    server.stop();
    process.wait_for_log("did not finish before the drain deadline");
}
