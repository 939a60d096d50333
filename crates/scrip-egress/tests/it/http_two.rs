//! HTTP/2 by ALPN.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, Version};
use scrip_egress::{Delivery, EgressClient, SendFailure};
use tokio::{io::AsyncReadExt, time::Instant};

use crate::{
    peers::{Peer, wait_until},
    support::{
        SCOPE, TestAuthority, client, get, peer_url, permissive_settings, post, scope, send, soon,
        text,
    },
};

async fn start() -> (Peer, EgressClient) {
    let authority = TestAuthority::new();
    let mut config = authority.server_config();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let peer = Peer::start_echo(Some(config)).await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    (peer, client)
}

#[tokio::test]
async fn requests_share_a_connection_within_a_scope_only() {
    let (peer, client) = start().await;
    let destination = peer_url(peer.port(), "/path?query");
    let expected = format!("POST /path?query peer.example:{} body", peer.port());
    let response = send(&client, &destination, post("body")).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    assert_eq!(text(response).await, expected);
    let requests = (0..20).map(|_| {
        let (client, destination) = (client.clone(), destination.clone());
        tokio::spawn(
            async move { text(send(&client, &destination, post("body")).await.unwrap()).await },
        )
    });
    for request in requests.collect::<Vec<_>>() {
        assert_eq!(request.await.unwrap(), expected);
    }
    assert_eq!(peer.log.connections(), 1);
    let response = client.send(&destination, scope(1, 2), None, get(), soon()).await.unwrap();
    text(response).await;
    assert_eq!(peer.log.connections(), 2);
    assert_eq!(client.stats().idle_connections, 2);
    client.close_idle_connections();
    assert_eq!(client.stats().idle_connections, 0);
    wait_until(|| peer.log.closed() == 2).await;
}

#[tokio::test]
async fn framing_headers_are_not_sent() {
    let (peer, client) = start().await;
    let request = Request::put("/ignored")
        .header("Host", "hostile.example")
        .header("Connection", "keep-alive, X-Hop")
        .header("Keep-Alive", "timeout=5")
        .header("Content-Length", "1")
        .header("Transfer-Encoding", "chunked")
        .body(Bytes::from_static(b"body"))
        .unwrap();
    let destination = peer_url(peer.port(), "/");
    let response = send(&client, &destination, request).await.unwrap();
    assert_eq!(text(response).await, format!("PUT / peer.example:{} body", peer.port()));
}

#[tokio::test]
async fn closed_connection_is_replaced() {
    let (peer, client) = start().await;
    let destination = peer_url(peer.port(), "/");
    text(send(&client, &destination, get()).await.unwrap()).await;
    let port = peer.port();
    drop(peer);
    // The listener is gone, but the connection is still open.
    text(send(&client, &destination, get()).await.unwrap()).await;
    client.close_idle_connections();
    let error = send(&client, &peer_url(port, "/"), get()).await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent);
}

#[tokio::test]
async fn silent_destination_times_out_as_maybe_sent() {
    let authority = TestAuthority::new();
    let mut config = authority.server_config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let peer = Peer::start(Some(config), |mut stream, _| async move {
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    })
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    let destination = peer_url(peer.port(), "/");
    let deadline = Instant::now() + Duration::from_secs(5);
    let result = client.send(&destination, SCOPE, None, post("card"), deadline).await;
    let error = result.unwrap_err();
    assert_eq!(error.failure, SendFailure::Timeout);
    assert_eq!(error.delivery, Delivery::MaybeSent);
}

#[tokio::test]
async fn closing_and_malformed_destinations_are_maybe_sent() {
    for response in [b"".as_slice(), b"HTTP/1.1 200 OK\r\n\r\n"] {
        let authority = TestAuthority::new();
        let mut config = authority.server_config();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let peer = Peer::start(Some(config), move |mut stream, log| async move {
            // The preface, and at least a part of the request.
            let mut bytes = [0; 100];
            stream.read_exact(&mut bytes).await?;
            log.record("received".to_owned());
            tokio::io::AsyncWriteExt::write_all(&mut stream, response).await
        })
        .await;
        let client = client(permissive_settings(peer.port(), authority.roots()));
        let error = send(&client, &peer_url(peer.port(), "/"), post("card")).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::MaybeSent);
        let is_expected = matches!(error.failure, SendFailure::Closed | SendFailure::Malformed);
        assert!(is_expected, "{error:?}");
    }
}
