//! Pools: reuse within a scope, isolation between scopes, and stale connections.

use std::time::Duration;

use scrip_egress::{EgressClient, TlsMaterial};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    peers::{Peer, read_request, wait_until},
    support::{
        TestAuthority, client, get, peer_url, permissive_settings, post, scope, send, soon, text,
    },
};

async fn start_echo() -> (TestAuthority, Peer, EgressClient) {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    (authority, peer, client)
}

#[tokio::test]
async fn requests_of_one_scope_reuse_a_connection() {
    let (_authority, peer, client) = start_echo().await;
    for number in 0..10 {
        let destination = peer_url(peer.port(), &format!("/{number}"));
        let response = send(&client, &destination, post("body")).await.unwrap();
        let expected = format!("POST /{number} peer.example:{} body", peer.port());
        assert_eq!(text(response).await, expected);
    }
    assert_eq!(peer.log.connections(), 1);
    let stats = client.stats();
    assert_eq!((stats.connections_opened, stats.connections_reused, stats.lookups), (1, 9, 1));
    assert_eq!((stats.idle_connections, stats.requests_in_progress), (1, 0));
}

#[tokio::test]
async fn connections_are_never_shared_between_scopes_options_hosts_or_ports() {
    let (authority, peer, client) = start_echo().await;
    let ca_pem = authority.pem();
    let material = TlsMaterial { ca_pem: Some(&ca_pem), ..TlsMaterial::default() };
    let first_tls = client.tls_options(&material).unwrap();
    let second_tls = client.tls_options(&material).unwrap();
    let destination = peer_url(peer.port(), "/");
    let rows = [
        (scope(1, 1), None),
        (scope(1, 2), None),
        (scope(2, 1), None),
        (scope(1, 1), Some(&first_tls)),
        (scope(1, 1), Some(&second_tls)),
        (scope(2, 1), Some(&first_tls)),
    ];
    for round in 1..=2 {
        for (index, (scope, tls)) in rows.into_iter().enumerate() {
            let response = client.send(&destination, scope, tls, get(), soon()).await.unwrap();
            text(response).await;
            let expected = if round == 1 { index + 1 } else { rows.len() };
            assert_eq!(peer.log.connections(), expected);
        }
    }
}

#[tokio::test]
async fn another_name_of_the_same_address_has_its_own_connection() {
    let authority = TestAuthority::new();
    let certificate = authority.issue(&["a.example", "b.example"]);
    let config = crate::support::server_config(&certificate, None, rustls::ALL_VERSIONS);
    let peer = Peer::start_echo(Some(config)).await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    for name in ["a.example", "b.example", "a.example", "b.example"] {
        let url = format!("https://{name}:{}/", peer.port());
        let destination = scrip_egress::Destination::parse(&url).unwrap();
        text(send(&client, &destination, get()).await.unwrap()).await;
    }
    assert_eq!(peer.log.connections(), 2);
}

#[tokio::test]
async fn concurrent_requests_use_several_connections_and_keep_them() {
    let (_authority, peer, client) = start_echo().await;
    let requests = (0..8).map(|number| {
        let (client, port) = (client.clone(), peer.port());
        tokio::spawn(async move {
            let destination = peer_url(port, &format!("/{number}"));
            text(send(&client, &destination, get()).await.unwrap()).await
        })
    });
    let requests: Vec<_> = requests.collect();
    for (number, request) in requests.into_iter().enumerate() {
        let body = request.await.unwrap();
        assert!(body.starts_with(&format!("GET /{number} ")), "{body}");
    }
    let stats = client.stats();
    assert_eq!(stats.idle_connections, peer.log.connections());
    client.close_idle_connections();
    assert_eq!(client.stats().idle_connections, 0);
}

/// Lets the runtime handle every network event before this call: its own event comes later.
async fn handle_network_events() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (mut one, (mut other, _)) =
        tokio::try_join!(TcpStream::connect(address), listener.accept()).unwrap();
    one.write_all(b"x").await.unwrap();
    other.read_u8().await.unwrap();
    other.write_all(b"x").await.unwrap();
    one.read_u8().await.unwrap();
}

#[tokio::test]
async fn stale_connection_is_replaced_and_the_request_sent_once() {
    let authority = TestAuthority::new();
    // Promises to keep the connection, and closes it.
    let peer = Peer::start_canned(
        Some(authority.server_config()),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
    )
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    for number in 1..=5 {
        let response = send(&client, &peer_url(peer.port(), "/"), post("card")).await.unwrap();
        assert_eq!(text(response).await, "ok");
        wait_until(|| peer.log.closed() == number).await;
        handle_network_events().await;
        assert_eq!(peer.log.requests().len(), number);
    }
    assert_eq!(peer.log.connections(), 5);
}

#[tokio::test]
async fn unexpected_bytes_on_an_idle_connection_are_never_a_response() {
    let authority = TestAuthority::new();
    let peer = Peer::start(Some(authority.server_config()), |mut stream, log| async move {
        log.record(read_request(&mut stream).await?);
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        // A second response without a request.
        stream.write_all([response, &response.replace("ok", "no")].concat().as_bytes()).await?;
        log.record("written".to_owned());
        stream.read_u8().await.map(drop)
    })
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    for number in 1..=3 {
        let response = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap();
        assert_eq!(text(response).await, "ok");
        wait_until(|| peer.log.requests().len() == 2 * number).await;
        handle_network_events().await;
    }
    assert_eq!(peer.log.connections(), 3);
}

#[tokio::test]
async fn response_with_connection_close_is_not_pooled() {
    let authority = TestAuthority::new();
    let response = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let peer = Peer::start(Some(authority.server_config()), move |mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(response).await?;
        // Until the client closes the connection.
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    })
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    let response = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap();
    assert_eq!(text(response).await, "ok");
    assert_eq!(client.stats().idle_connections, 0);
    wait_until(|| peer.log.closed() == 1).await;
}

#[tokio::test]
async fn abandoned_body_closes_its_connection() {
    let authority = TestAuthority::new();
    let peer = Peer::start(Some(authority.server_config()), |mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await?;
        stream.read_u8().await.map(drop)
    })
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    let response = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap();
    assert_eq!(client.stats().requests_in_progress, 1);
    drop(response);
    wait_until(|| peer.log.closed() == 1).await;
    let stats = client.stats();
    assert_eq!((stats.idle_connections, stats.requests_in_progress), (0, 0));
}

#[tokio::test]
async fn idle_connections_are_closed_after_their_timeout() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let mut settings = permissive_settings(peer.port(), authority.roots());
    settings.limits.idle_timeout = Duration::from_millis(50);
    let client = client(settings);
    text(send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap()).await;
    wait_until(|| client.stats().idle_connections == 0).await;
    wait_until(|| peer.log.closed() == 1).await;
}

#[tokio::test]
async fn old_connections_are_not_used_again() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let mut settings = permissive_settings(peer.port(), authority.roots());
    settings.limits.connection_age_max = Duration::ZERO;
    let client = client(settings);
    for _ in 0..3 {
        text(send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap()).await;
    }
    assert_eq!(peer.log.connections(), 3);
    assert_eq!(client.stats().lookups, 3);
}

#[tokio::test]
async fn idle_places_are_shared_fairly() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let mut settings = permissive_settings(peer.port(), authority.roots());
    settings.limits.idle_connections_max = 4;
    let client = client(settings);
    let destination = peer_url(peer.port(), "/");
    // Each part has its own connection: one tenant keeps at most half of the places.
    for part in 0..6 {
        let response = client.send(&destination, scope(1, part), None, get(), soon()).await;
        text(response.unwrap()).await;
    }
    assert_eq!(client.stats().idle_connections, 2);
    let response = client.send(&destination, scope(2, 0), None, get(), soon()).await;
    text(response.unwrap()).await;
    assert_eq!(client.stats().idle_connections, 3);
    let reused_before = client.stats().connections_reused;
    let response = client.send(&destination, scope(2, 0), None, get(), soon()).await;
    text(response.unwrap()).await;
    assert_eq!(client.stats().connections_reused, reused_before + 1);
}
