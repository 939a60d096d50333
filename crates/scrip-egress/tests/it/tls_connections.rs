//! Certificates, versions and client certificates.

use std::sync::Arc;

use rustls::version::{TLS12, TLS13};
use scrip_egress::{
    ClientCertificate, Delivery, SendError, SendFailure, TlsFailure, TlsMaterial, TlsMinimum,
    TlsOptions, TlsOptionsError, TrustedRoots,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    peers::Peer,
    support::{
        PEER_NAME, SCOPE, TestAuthority, TestCertificate, client, get, peer_url,
        permissive_settings, send, server_config, soon, text,
    },
};

fn not_sent(failure: TlsFailure) -> SendError {
    SendError { delivery: Delivery::NotSent, failure: SendFailure::Tls(failure) }
}

fn client_certificate(certificate: &TestCertificate) -> ClientCertificate<'_> {
    ClientCertificate { chain_pem: &certificate.chain_pem, key_pem: &certificate.key_pem }
}

#[tokio::test]
async fn untrusted_certificates_are_rejected_before_the_request() {
    let (authority, stranger) = (TestAuthority::new(), TestAuthority::new());
    let versions = [&TLS13, &TLS12];
    let rows = [
        (authority.issue(&["other.example"]), TlsFailure::CertificateName),
        (authority.issue(&["*.peer.example"]), TlsFailure::CertificateName),
        (authority.issue(&["127.0.0.1"]), TlsFailure::CertificateName),
        (authority.issue_until(&[PEER_NAME], 2001), TlsFailure::CertificateTime),
        (stranger.issue(&[PEER_NAME]), TlsFailure::CertificateAuthority),
    ];
    for (certificate, failure) in rows {
        let peer = Peer::start_echo(Some(server_config(&certificate, None, &versions))).await;
        let client = client(permissive_settings(peer.port(), authority.roots()));
        let error = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap_err();
        assert_eq!(error, not_sent(failure));
        assert!(peer.log.requests().is_empty());
    }
}

#[tokio::test]
async fn private_authority_replaces_the_others() {
    let (public, private) = (TestAuthority::new(), TestAuthority::new());
    let public_peer = Peer::start_echo(Some(public.server_config())).await;
    let private_peer = Peer::start_echo(Some(private.server_config())).await;
    let mut settings = permissive_settings(public_peer.port(), public.roots());
    settings.allowed_ports.push(private_peer.port());
    let client = client(settings);
    let material = TlsMaterial { ca_pem: Some(&private.pem()), ..TlsMaterial::default() };
    let pinned = client.tls_options(&material).unwrap();
    for (peer, tls, is_trusted) in [
        (&public_peer, None, true),
        (&private_peer, None, false),
        (&public_peer, Some(&pinned), false),
        (&private_peer, Some(&pinned), true),
    ] {
        let destination = peer_url(peer.port(), "/");
        let result = client.send(&destination, SCOPE, tls, get(), soon()).await;
        assert_eq!(result.is_ok(), is_trusted);
    }
}

#[tokio::test]
async fn old_versions_are_rejected() {
    let authority = TestAuthority::new();
    let certificate = authority.issue(&[PEER_NAME]);
    let peer = Peer::start_echo(Some(server_config(&certificate, None, &[&TLS12]))).await;
    let client_of = |port| client(permissive_settings(port, authority.roots()));
    let client = client_of(peer.port());
    let destination = peer_url(peer.port(), "/");
    text(send(&client, &destination, get()).await.unwrap()).await;
    let material = TlsMaterial { minimum: TlsMinimum::Tls13, ..TlsMaterial::default() };
    let tls = client.tls_options(&material).unwrap();
    let error = client.send(&destination, SCOPE, Some(&tls), get(), soon()).await.unwrap_err();
    assert_eq!(error, not_sent(TlsFailure::Version));

    // A server of TLS 1.1 rejects the first message with this alert.
    let alert = [0x15, 3, 2, 0, 2, 2, 70];
    let old_peer = Peer::start(None, move |mut stream, _| async move {
        stream.read_u8().await?;
        stream.write_all(&alert).await?;
        // Until the client closes the connection.
        stream.read_to_end(&mut Vec::new()).await.map(drop)
    })
    .await;
    let client = client_of(old_peer.port());
    let error = send(&client, &peer_url(old_peer.port(), "/"), get()).await.unwrap_err();
    assert_eq!(error, not_sent(TlsFailure::Version));
}

#[tokio::test]
async fn plain_peer_fails_the_handshake() {
    let peer = Peer::start(None, |mut stream, _| async move {
        stream.read_u8().await?;
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await
    })
    .await;
    let client = client(permissive_settings(peer.port(), TrustedRoots::none()));
    let error = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap_err();
    assert_eq!(error, not_sent(TlsFailure::Handshake));
}

#[tokio::test]
async fn required_client_certificate_is_presented() {
    let (authority, stranger) = (TestAuthority::new(), TestAuthority::new());
    for versions in [[&TLS13], [&TLS12]] {
        let peer = Peer::start_echo(Some(authority.mutual_server_config(&versions))).await;
        let client = client(permissive_settings(peer.port(), authority.roots()));
        let destination = peer_url(peer.port(), "/");
        let certificate = authority.issue(&["client.example"]);
        let foreign_certificate = stranger.issue(&["client.example"]);
        let build = |it: &TestCertificate| {
            let certificate = Some(client_certificate(it));
            let material =
                TlsMaterial { client_certificate: certificate, ..TlsMaterial::default() };
            client.tls_options(&material).unwrap()
        };
        let (tls, foreign_tls) = (build(&certificate), build(&foreign_certificate));
        let response = client.send(&destination, SCOPE, Some(&tls), get(), soon()).await.unwrap();
        text(response).await;
        for tls in [None, Some(&foreign_tls)] {
            let error = client.send(&destination, SCOPE, tls, get(), soon()).await.unwrap_err();
            // In TLS 1.3 the server checks the certificate after the client may send.
            let is_expected =
                matches!(error.failure, SendFailure::Tls(TlsFailure::ClientCertificate));
            let is_closed = error.failure == SendFailure::Closed;
            assert!(is_expected || is_closed, "{error:?}");
        }
        assert_eq!(peer.log.requests().len(), 1);
    }
}

#[test]
fn invalid_tls_options_are_rejected() {
    let authority = TestAuthority::new();
    let (first, second) = (authority.issue(&["a.example"]), authority.issue(&["b.example"]));
    let build = |ca_pem, chain_pem, key_pem| {
        let client_certificate = Some(ClientCertificate { chain_pem, key_pem });
        let material = TlsMaterial { ca_pem, client_certificate, ..TlsMaterial::default() };
        TlsOptions::new(&material, &authority.roots())
    };
    let (chain, key) = (first.chain_pem.as_str(), first.key_pem.as_str());
    let damaged = chain.replace("MII", "AAA");
    let unterminated = chain.replace("-----END CERTIFICATE-----", "");
    let rows = [
        (Some(""), chain, key, TlsOptionsError::PrivateCa),
        (Some("text"), chain, key, TlsOptionsError::PrivateCa),
        (Some(&damaged), chain, key, TlsOptionsError::PrivateCa),
        (Some(&unterminated), chain, key, TlsOptionsError::PrivateCa),
        (None, "", key, TlsOptionsError::Certificate),
        (None, key, key, TlsOptionsError::Certificate),
        (None, &damaged, key, TlsOptionsError::Certificate),
        (None, chain, "", TlsOptionsError::PrivateKey),
        (None, chain, chain, TlsOptionsError::PrivateKey),
        (None, chain, &second.key_pem, TlsOptionsError::KeyMismatch),
    ];
    for (ca_pem, chain_pem, key_pem, expected) in rows {
        let result = build(ca_pem, chain_pem, key_pem);
        assert_eq!(result.err(), Some(expected), "{ca_pem:.20?} {chain_pem:.20?} {key_pem:.20?}");
    }
    let options = build(Some(&authority.pem()), chain, key).unwrap();
    assert!(!format!("{options:?}").contains("BEGIN"));
}

#[tokio::test]
async fn system_authorities_do_not_trust_a_stranger() {
    // A machine without authorities has none to test.
    let Ok(roots) = TrustedRoots::load_from_system() else { return };
    let authority = TestAuthority::new();
    let peer = Peer::start_echo(Some(authority.server_config())).await;
    let client = client(permissive_settings(peer.port(), roots));
    let error = send(&client, &peer_url(peer.port(), "/"), get()).await.unwrap_err();
    assert_eq!(error, not_sent(TlsFailure::CertificateAuthority));
}

#[tokio::test]
async fn sessions_are_not_resumed_in_another_scope() {
    let authority = TestAuthority::new();
    let certificate = authority.issue(&[PEER_NAME]);
    let sessions = rustls::server::ServerSessionMemoryCache::new(100);
    let mut config = server_config(&certificate, None, &[&TLS12]);
    config.session_storage = Arc::<rustls::server::ServerSessionMemoryCache>::clone(&sessions);
    // Reports whether the session was resumed.
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let peer = Peer::start(None, move |stream, log| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await?;
            let kind = stream.get_ref().1.handshake_kind();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await?);
            }
            log.record(format!("{:?}", kind.unwrap()));
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(response.as_bytes()).await?;
            stream.shutdown().await
        }
    })
    .await;
    let client = client(permissive_settings(peer.port(), authority.roots()));
    let other_tls = client.tls_options(&TlsMaterial::default()).unwrap();
    let destination = peer_url(peer.port(), "/");
    let (first, second) = (crate::support::scope(1, 1), crate::support::scope(1, 2));
    for (scope, tls) in
        [(first, None), (first, None), (second, None), (first, Some(&other_tls)), (first, None)]
    {
        let response = client.send(&destination, scope, tls, get(), soon()).await.unwrap();
        text(response).await;
    }
    assert_eq!(peer.log.requests(), ["Full", "Resumed", "Full", "Full", "Resumed"]);
}
