//! TLS with both protocols: handshakes, new certificates, deadlines and draining.

use std::{fs, io::Read, net::TcpStream, process::Command, thread::sleep, time::Duration};

use bytes::Bytes;
use hyper::{Request, Version};
use rustls::pki_types::CertificateDer;
use scrip_testing::process::{
    harness::{ProcessHarness, Running, eventually},
    terminate, wait,
};
use tokio::{io::AsyncReadExt, runtime::Runtime, time::timeout};

use crate::network::tls_client::{
    Body, PATIENCE, body_by_hand, certify, connect, hold, send, text, with_tls,
};

const CARD: &str = r#"{"type":"card","data":{"number":"4242424242424242"}}"#;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn post(key: &str, body: Body, protocol: &str) -> Request<Body> {
    // HTTP/2 has the host in its address, HTTP/1.1 in a header.
    let uri = if protocol == "h2" { "https://localhost/tokens" } else { "/tokens" };
    let request = Request::post(uri).header("bt-api-key", key).header("host", "localhost");
    request.header("content-type", "application/json").body(body).unwrap()
}

/// Whether the server now shows this certificate.
fn shows(runtime: &Runtime, server: &Running, certificate: &CertificateDer<'static>) -> bool {
    runtime.block_on(connect(server.address, certificate, "h2")).is_ok()
}

#[test]
fn both_protocols_are_spoken() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let house = with_tls(house);
    let certificate = certify(&house);
    let server = house.serve();
    assert!(server.url.starts_with("https://"), "{}", server.url);
    house.logged("the vault is open");
    for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
        runtime().block_on(async {
            let stream = connect(server.address, &certificate, protocol).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
            let (sender, body) = body_by_hand();
            sender.send(Bytes::from(CARD)).await.unwrap();
            drop(sender);
            let response = send(stream, post(&key, body, protocol)).await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (201, version));
            assert!(response.headers().contains_key("bt-trace-id"));
            assert!(text(response).await.contains("4242424242424242"));
        });
    }
    // In clear there is nothing.
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = TcpStream::connect(server.address).unwrap();
    std::io::Write::write_all(&mut stream, request).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn a_certificate_that_cannot_be_used_ends_the_start() {
    let house = with_tls(ProcessHarness::founded(crate::SCRIP));
    house.refused(&["serve"], "tls.certificate");
    certify(&house);
    let mine = fs::read(house.path("key.pem")).unwrap();
    certify(&house);
    fs::write(house.path("key.pem"), mine).unwrap();
    house.refused(&["serve"], "cannot be used together");
}

#[test]
fn a_new_certificate_is_taken_and_a_broken_one_is_not() {
    let house = with_tls(ProcessHarness::founded(crate::SCRIP));
    let first = certify(&house);
    let server = house.serve();
    let runtime = runtime();
    assert!(shows(&runtime, &server, &first));
    let second = certify(&house);
    assert!(eventually(|| shows(&runtime, &server, &second)), "a change is noticed");
    assert!(!shows(&runtime, &server, &first));

    fs::write(house.path("cert.pem"), "nothing").unwrap();
    house.logged("the old one stays");
    assert!(shows(&runtime, &server, &second));
    let third = certify(&house);
    assert!(eventually(|| shows(&runtime, &server, &third)), "it recovers");
}

#[test]
fn a_hang_up_signal_reads_the_certificate_again() {
    let house =
        with_tls(ProcessHarness::founded(crate::SCRIP)).set("SCRIP_TLS_RELOAD_SECONDS", "86400");
    let first = certify(&house);
    let server = house.serve();
    let runtime = runtime();
    assert!(shows(&runtime, &server, &first));
    let second = certify(&house);
    let hang_up = || {
        let sent = Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    hang_up();
    assert!(eventually(|| shows(&runtime, &server, &second)));
    fs::write(house.path("key.pem"), "nothing").unwrap();
    hang_up();
    house.logged("the old one stays");
    assert!(shows(&runtime, &server, &second));
}

#[test]
fn silence_is_cut_off() {
    let house = with_tls(ProcessHarness::founded(crate::SCRIP))
        .set("SCRIP_SERVER_HEADER_DEADLINE_SECONDS", "2");
    let house = house.set("SCRIP_SERVER_CONNECTIONS_MAX", "2");
    let certificate = certify(&house);
    let server = house.serve();
    // They take every place there is, and say nothing.
    let silent: Vec<_> = (0..2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).expect("closed in order, and in time"), 0);
    }
    // Nor does a handshake buy more than that, whatever was agreed on.
    for protocol in ["http/1.1", "h2"] {
        runtime().block_on(async {
            let mut stream = connect(server.address, &certificate, protocol).await.unwrap();
            let rest = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
            assert!(rest.is_ok(), "{protocol}: it is closed in time");
        });
    }
}

#[test]
fn a_slow_request_is_not_taken_for_silence() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let house = with_tls(house).set("SCRIP_SERVER_HEADER_DEADLINE_SECONDS", "2");
    let house = house.set("SCRIP_SERVER_DRAIN_DEADLINE_SECONDS", "1");
    let certificate = certify(&house);
    let server = house.serve();
    house.logged("the vault is open");
    runtime().block_on(async {
        let stream = connect(server.address, &certificate, "h2").await.unwrap();
        let (sender, body) = body_by_hand();
        let slowly = async {
            let (first, second) = CARD.split_at(7);
            sender.send(Bytes::from(first)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(6)).await;
            sender.send(Bytes::from(second)).await.unwrap();
            drop(sender);
        };
        let (response, ()) = tokio::join!(send(stream, post(&key, body, "h2")), slowly);
        assert_eq!(response.unwrap().status(), 201);
    });
}

/// Both protocols: what is in flight when the server is told to stop is answered.
#[test]
fn requests_in_flight_are_answered() {
    for protocol in ["http/1.1", "h2"] {
        let (house, key) = ProcessHarness::with_key(crate::SCRIP);
        let house = with_tls(house);
        let certificate = certify(&house);
        let mut server = house.serve();
        house.logged("the vault is open");
        let runtime = runtime();
        // One that has not even said hello must not hold the server, nor one that asks nothing.
        let _silent = TcpStream::connect(server.address).unwrap();
        let _idle = runtime.block_on(async {
            let stream = connect(server.address, &certificate, protocol).await.unwrap();
            hold(stream).await.unwrap()
        });
        let (sender, body) = body_by_hand();
        let (first, second) = CARD.split_at(7);
        let stream = runtime.block_on(connect(server.address, &certificate, protocol)).unwrap();
        let pending = runtime.spawn(send(stream, post(&key, body, protocol)));
        sender.blocking_send(Bytes::from(first)).unwrap();
        sleep(Duration::from_millis(500));
        terminate(&server.child);
        assert!(eventually(|| TcpStream::connect(server.address).is_err()), "it stops listening");
        assert!(server.child.try_wait().unwrap().is_none(), "it waits for its requests");
        let response = runtime.block_on(async {
            sender.send(Bytes::from(second)).await.unwrap();
            drop(sender);
            let response = pending.await.unwrap().unwrap();
            (response.status().as_u16(), text(response).await)
        });
        assert_eq!(response.0, 201, "{protocol}");
        let status = wait(&mut server.child, Duration::from_secs(5)).expect("it ends at once");
        assert_eq!(status.code(), Some(0));
    }
}

#[test]
fn a_request_that_never_ends_does_not_hold_the_server() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let house = with_tls(house).set("SCRIP_SERVER_DRAIN_DEADLINE_SECONDS", "1");
    let certificate = certify(&house);
    let mut server = house.serve();
    house.logged("the vault is open");
    let runtime = runtime();
    let (sender, body) = body_by_hand();
    let stream = runtime.block_on(connect(server.address, &certificate, "h2")).unwrap();
    let _pending = runtime.spawn(send(stream, post(&key, body, "h2")));
    sender.blocking_send(Bytes::from("{")).unwrap();
    sleep(Duration::from_millis(500));
    terminate(&server.child);
    let status = wait(&mut server.child, Duration::from_secs(8)).expect("it ends");
    assert_eq!(status.code(), Some(0));
    house.logged("did not finish before the drain deadline");
}
