//! Destinations that are slow, silent, half-closing, oversized or malformed.

use std::{io, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Request;
use scrip_egress::{
    BodyError, Delivery, EgressClient, EgressSettings, SendError, SendFailure, TrustedRoots,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};

use crate::{
    peers::{Peer, PeerLog, PeerStream, read_head, read_request},
    support::{
        SCOPE, TestAuthority, client, get, peer_url, permissive_settings, post, send, soon, text,
    },
};

struct Setup {
    authority: TestAuthority,
}

impl Setup {
    fn new() -> Self {
        Self { authority: TestAuthority::new() }
    }

    fn client(&self, peer: &Peer) -> EgressClient {
        client(permissive_settings(peer.port(), self.authority.roots()))
    }

    async fn peer<F, H>(&self, handle: H) -> Peer
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
        H: Fn(PeerStream, PeerLog) -> F + Send + Sync + 'static,
    {
        Peer::start(Some(self.authority.server_config()), handle).await
    }

    async fn canned(&self, response: impl Into<Vec<u8>>) -> Peer {
        Peer::start_canned(Some(self.authority.server_config()), response.into()).await
    }

    async fn failure(&self, response: impl Into<Vec<u8>>) -> SendError {
        let peer = self.canned(response).await;
        send(&self.client(&peer), &peer_url(peer.port(), "/"), post("card")).await.unwrap_err()
    }

    async fn body_failure(&self, response: impl Into<Vec<u8>>) -> BodyError {
        let peer = self.canned(response).await;
        let (client, destination) = (self.client(&peer), peer_url(peer.port(), "/"));
        let response = send(&client, &destination, post("card")).await.unwrap();
        response.into_body().collect(1000).await.unwrap_err()
    }
}

fn maybe_sent(failure: SendFailure) -> SendError {
    SendError { delivery: Delivery::MaybeSent, failure }
}

#[tokio::test]
async fn silent_destination_times_out_as_maybe_sent() {
    let setup = Setup::new();
    let peer = setup
        .peer(|mut stream, log| async move {
            answer_first_request(&mut stream).await?;
            log.record(read_request(&mut stream).await?);
            // Until the client closes the connection.
            stream.read_u8().await.map(drop)
        })
        .await;
    let client = setup.client(&peer);
    let destination = peer_url(peer.port(), "/");
    text(send(&client, &destination, get()).await.unwrap()).await;
    let deadline = Instant::now() + Duration::from_millis(300);
    let result = client.send(&destination, SCOPE, None, post("card"), deadline).await;
    assert_eq!(result.unwrap_err(), maybe_sent(SendFailure::Timeout));
    // The connection is closed, not pooled.
    crate::peers::wait_until(|| peer.log.closed() == 1).await;
    assert_eq!(client.stats().idle_connections, 0);
    assert_eq!(client.stats().requests_in_progress, 0);
}

/// The first request opens the connection, so that the deadline of the next one applies to the
/// response only.
async fn answer_first_request(stream: &mut PeerStream) -> io::Result<()> {
    read_request(stream).await?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await
}

#[tokio::test]
async fn silent_handshake_times_out_as_not_sent() {
    // Accepts connections and never speaks.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut settings = permissive_settings(port, TrustedRoots::none());
    settings.limits.connect_timeout = Duration::from_millis(200);
    let error = send(&client(settings.clone()), &peer_url(port, "/"), get()).await.unwrap_err();
    let not_sent = |failure| SendError { delivery: Delivery::NotSent, failure };
    assert_eq!(error, not_sent(SendFailure::ConnectTimeout));

    settings.limits.connect_timeout = Duration::from_secs(60);
    let deadline = Instant::now() + Duration::from_millis(200);
    let client = client(settings);
    let result = client.send(&peer_url(port, "/"), SCOPE, None, get(), deadline).await;
    assert_eq!(result.unwrap_err(), not_sent(SendFailure::Timeout));
}

#[tokio::test]
async fn closed_port_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = client(permissive_settings(port, TrustedRoots::none()));
    let error = send(&client, &peer_url(port, "/"), get()).await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(error.failure, SendFailure::Connect(io::ErrorKind::ConnectionRefused));
}

#[tokio::test]
async fn slow_body_ends_with_a_timeout() {
    let setup = Setup::new();
    let peer = setup
        .peer(|mut stream, _| async move {
            answer_first_request(&mut stream).await?;
            read_request(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await?;
            // Slow, but never silent for long.
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    let client = setup.client(&peer);
    let destination = peer_url(peer.port(), "/");
    text(send(&client, &destination, get()).await.unwrap()).await;
    let deadline = Instant::now() + Duration::from_secs(3);
    let response = client.send(&destination, SCOPE, None, get(), deadline).await.unwrap();
    assert_eq!(response.into_body().collect(1000).await.unwrap_err(), BodyError::Timeout);
    assert_eq!(client.stats().idle_connections, 0);
}

#[tokio::test]
async fn destination_that_closes_after_the_request_is_maybe_sent() {
    let error = Setup::new().failure("").await;
    assert_eq!(error, maybe_sent(SendFailure::Closed));
}

#[tokio::test]
async fn destination_that_closes_within_the_head_is_maybe_sent() {
    let error = Setup::new().failure("HTTP/1.1 200 OK\r\nContent-").await;
    assert_eq!(error, maybe_sent(SendFailure::Closed));
}

#[tokio::test]
async fn destination_that_closes_within_the_body_gives_an_incomplete_body() {
    let setup = Setup::new();
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhalf",
    ] {
        assert_eq!(setup.body_failure(response).await, BodyError::Closed, "{response:?}");
    }
}

#[tokio::test]
async fn half_closed_destination_still_responds() {
    let authority = TestAuthority::new();
    // Reads the request, closes its reading side in effect, and responds until the end of file.
    let peer = Peer::start_canned(
        Some(authority.server_config()),
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec(),
    )
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    let response = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap();
    assert_eq!(text(response).await, "until the end");
    assert_eq!(client.stats().idle_connections, 0);
}

#[tokio::test]
async fn malformed_responses_are_maybe_sent() {
    let setup = Setup::new();
    let many_headers = "X: y\r\n".repeat(300);
    let long_header = format!("X: {}\r\n", "y".repeat(100_000));
    let responses = [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n".to_owned(),
        "HTTP/9.9 200 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 20 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 OK\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nA B: c\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_owned(),
        "\0\0\0\0\0\0\0\0".repeat(4),
        format!("HTTP/1.1 200 OK\r\n{many_headers}\r\n"),
        format!("HTTP/1.1 200 OK\r\n{long_header}\r\n"),
    ];
    for response in responses {
        let error = setup.failure(response.clone()).await;
        assert_eq!(error, maybe_sent(SendFailure::Malformed), "{:.60?}", response);
    }
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf\r\n";
    let error = setup.body_failure(chunks).await;
    assert!(matches!(error, BodyError::Malformed | BodyError::Closed), "{error:?}");
}

#[tokio::test]
async fn interim_responses_without_end_are_rejected() {
    let setup = Setup::new();
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let error = setup.failure(interim.repeat(100_000)).await;
    assert_eq!(error, maybe_sent(SendFailure::Malformed));
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let peer = setup.canned(format!("{}{answer}", interim.repeat(3))).await;
    let destination = peer_url(peer.port(), "/");
    let response = send(&setup.client(&peer), &destination, post("card")).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn oversized_bodies_are_rejected() {
    let setup = Setup::new();
    let body = "x".repeat(1001);
    for response in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n{body}"),
        "HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n{body}\r\n0\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
    ] {
        assert_eq!(
            setup.body_failure(response.clone()).await,
            BodyError::TooLarge,
            "{response:.60}"
        );
    }
    let exact = setup.canned(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1000))).await;
    let response = send(&setup.client(&exact), &peer_url(exact.port(), "/"), get()).await.unwrap();
    assert_eq!(response.into_body().collect(1000).await.unwrap().len(), 1000);
}

#[tokio::test]
async fn endless_body_is_cut_at_its_limit() {
    let setup = Setup::new();
    let peer = setup
        .peer(|mut stream, _| async move {
            read_request(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        })
        .await;
    let response =
        send(&setup.client(&peer), &peer_url(peer.port(), "/"), get()).await.unwrap().into_body();
    assert_eq!(response.collect(1 << 20).await.unwrap_err(), BodyError::TooLarge);
}

#[tokio::test]
async fn informational_responses_are_skipped() {
    let setup = Setup::new();
    let response = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
                    HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";
    let peer = setup.canned(response).await;
    let response = send(&setup.client(&peer), &peer_url(peer.port(), "/"), get()).await.unwrap();
    assert_eq!(text(response).await, "done");
}

#[tokio::test]
async fn framing_headers_of_the_caller_are_replaced() {
    let setup = Setup::new();
    let peer = setup.canned("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let request = Request::post("https://hostile.example/other")
        .header("Host", "hostile.example")
        .header("Content-Length", "1")
        .header("Transfer-Encoding", "chunked")
        .header("Expect", "100-continue")
        .header("Upgrade", "websocket")
        .header("TE", "trailers")
        .header("Proxy-Authorization", "Basic eA==")
        .header("Proxy-Connection", "keep-alive")
        .header("X-Kept", "yes")
        .body(Bytes::from_static(b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"))
        .unwrap();
    let destination = peer_url(peer.port(), "/real?q");
    send(&setup.client(&peer), &destination, request).await.unwrap();
    let seen = peer.log.requests().remove(0);
    let head = seen.split("\r\n\r\n").next().unwrap().to_owned();
    let mut lines: Vec<_> = head.lines().map(str::to_ascii_lowercase).collect();
    lines.sort_unstable();
    let port = peer.port();
    let host = format!("host: peer.example:{port}");
    assert_eq!(lines, ["content-length: 31", &host, "post /real?q http/1.1", "x-kept: yes"]);
}

#[tokio::test]
async fn connect_method_is_rejected() {
    let client = client(EgressSettings::new(TrustedRoots::none()));
    let request = Request::connect("public.example:443").body(Bytes::new()).unwrap();
    let destination = scrip_egress::Destination::parse("https://public.example/").unwrap();
    let error = send(&client, &destination, request).await.unwrap_err();
    assert_eq!(error.failure, SendFailure::InvalidRequest);
    assert_eq!(error.delivery, Delivery::NotSent);
}

/// How far a destination goes before it closes the connection.
#[derive(Debug, Clone, Copy)]
enum CloseAt {
    Accept,
    Handshake,
    Head,
    Body,
}

#[tokio::test]
async fn not_sent_means_that_the_destination_received_no_byte() {
    let setup = Setup::new();
    for close_at in [CloseAt::Accept, CloseAt::Handshake, CloseAt::Head, CloseAt::Body] {
        let tls = setup.authority.server_config();
        let handle = move |mut stream: PeerStream, log: PeerLog| async move {
            match close_at {
                CloseAt::Accept | CloseAt::Handshake => (),
                CloseAt::Head => log.record(stream.read_u8().await?.to_string()),
                CloseAt::Body => log.record(read_head(&mut stream).await?),
            }
            Ok(())
        };
        let tls = if matches!(close_at, CloseAt::Accept) { None } else { Some(tls) };
        let peer = Peer::start(tls, handle).await;
        let client = setup.client(&peer);
        for _ in 0..20 {
            let received_before = peer.log.requests().len();
            let result =
                client.send(&peer_url(peer.port(), "/"), SCOPE, None, post("card"), soon()).await;
            let error = result.unwrap_err();
            match close_at {
                CloseAt::Accept => assert_eq!(error.delivery, Delivery::NotSent),
                // Whether the request or the end of the connection is first is a matter of time.
                CloseAt::Handshake => (),
                CloseAt::Head | CloseAt::Body => assert_eq!(error.delivery, Delivery::MaybeSent),
            }
            if peer.log.requests().len() > received_before {
                assert_eq!(error.delivery, Delivery::MaybeSent, "{close_at:?} {error:?}");
            }
        }
    }
}

/// A caller filters the headers of a response. Trailers would pass it by.
#[tokio::test]
async fn trailers_of_a_response_are_dropped() {
    let setup = Setup::new();
    let response = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: set-cookie\r\n\r\n\
                    5\r\nhello\r\n0\r\nset-cookie: sid=evil\r\n\r\n";
    let peer = setup.canned(response).await;
    let (client, destination) = (setup.client(&peer), peer_url(peer.port(), "/"));
    let mut body = send(&client, &destination, get()).await.unwrap().into_body();
    let mut received = Vec::new();
    while let Some(frame) = body.frame().await {
        received.extend_from_slice(&frame.unwrap().into_data().expect("data and no trailers"));
    }
    assert_eq!(received, b"hello");
}
