//! The operator's forward proxy.

use std::net::SocketAddr;

use scrip_egress::{
    Delivery, EgressSettings, ForwardProxy, ForwardProxyCredentials, GuardRejection, SendFailure,
};
use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
};

use crate::{
    peers::{Peer, read_head},
    support::{
        PEER_NAME, TableResolver, TestAuthority, client, get, peer_url, permissive_settings, send,
        text,
    },
};

/// A forward proxy that connects each tunnel to one address, since public addresses are not
/// reachable in a test.
async fn start_proxy(target: SocketAddr, response: &'static str) -> Peer {
    Peer::start(None, move |mut stream, log| async move {
        log.record(read_head(&mut stream).await?);
        stream.write_all(response.as_bytes()).await?;
        if response.contains(" 200 ") {
            let mut upstream = TcpStream::connect(target).await?;
            copy_bidirectional(&mut stream, &mut upstream).await?;
        }
        Ok(())
    })
    .await
}

fn with_proxy(mut settings: EgressSettings, proxy: &Peer) -> EgressSettings {
    let credentials =
        ForwardProxyCredentials { user: "vault".to_owned(), password: "secret".to_owned().into() };
    settings.forward_proxy = Some(ForwardProxy {
        host: "127.0.0.1".to_owned(),
        port: proxy.port(),
        credentials: Some(credentials),
    });
    settings
}

#[tokio::test]
async fn tunnel_goes_to_the_checked_address_with_end_to_end_tls() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let proxy = start_proxy(peer.address, "HTTP/1.1 200 Connection established\r\n\r\n").await;
    let mut settings = EgressSettings::new(authority.roots());
    settings.resolver = TableResolver::new(&[(PEER_NAME, &[&["93.184.216.34"]])]);
    let client = client(with_proxy(settings, &proxy));
    let destination = scrip_egress::Destination::parse("https://peer.example/a").unwrap();
    for _ in 0..2 {
        let response = send(&client, &destination, get()).await.unwrap();
        assert_eq!(text(response).await, "GET /a peer.example ");
    }
    let expected = "CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: 93.184.216.34:443\r\n\
                    Proxy-Authorization: Basic dmF1bHQ6c2VjcmV0\r\n\r\n";
    assert_eq!(proxy.log.requests(), [expected]);
    // The destination does not see the credentials of the forward proxy.
    assert_eq!(peer.log.requests().len(), 2);
}

#[tokio::test]
async fn guard_applies_before_the_forward_proxy() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let proxy = start_proxy(peer.address, "HTTP/1.1 200 OK\r\n\r\n").await;
    let mut settings = EgressSettings::new(authority.roots());
    settings.resolver = TableResolver::new(&[(PEER_NAME, &[&["10.0.0.1"]])]);
    let client = client(with_proxy(settings, &proxy));
    let destination = scrip_egress::Destination::parse("https://peer.example/").unwrap();
    let error = send(&client, &destination, get()).await.unwrap_err();
    let is_rejected = matches!(error.failure, SendFailure::Rejected(GuardRejection::Address(_)));
    assert!(is_rejected, "{error:?}");
    assert_eq!(proxy.log.connections(), 0);
}

#[tokio::test]
async fn rejected_tunnel_is_not_sent() {
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    for response in [
        "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
        "nonsense\r\n\r\n",
        "",
    ] {
        let proxy = start_proxy(peer.address, response).await;
        let settings = permissive_settings(peer.port(), authority.roots());
        let client = client(with_proxy(settings, &proxy));
        let error = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap_err();
        assert_eq!(error.failure, SendFailure::ForwardProxy, "{response:?}");
        assert_eq!(error.delivery, Delivery::NotSent);
    }
    assert_eq!(peer.log.connections(), 0);
}
