//! The destination server records requests byte for byte and behaves as a test asks.

#![expect(clippy::unwrap_used, reason = "clippy.toml exempts #[test] functions but not helpers")]

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use scrip_testing::destination::{
    DestinationHost, DestinationServer,
    authority::{HostTls, HttpVersions},
    behavior::{CannedResponse, DestinationBehavior},
};

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

fn connect(server: &DestinationServer, host: &DestinationHost) -> TlsStream {
    let mut roots = RootCertStore::empty();
    let root = server.authority.root_pem();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.name().to_owned()).unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(client, TcpStream::connect(server.address).unwrap())
}

/// Sends bytes and returns the response up to the end of the connection.
fn exchange(server: &DestinationServer, host: &DestinationHost, bytes: &str) -> String {
    let mut stream = connect(server, host);
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn requests_are_recorded_byte_for_byte() {
    let server = DestinationServer::start();
    let host = server.host(&[
        DestinationBehavior::Echo,
        CannedResponse::new(402, "text/plain", "no").with_header("X-A", "b").into(),
        DestinationBehavior::HangUp,
    ]);
    let head = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-Odd:  v \r\nContent-Length: 4\r\n\r\n";
    let chunked =
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    let response = exchange(&server, &host, &format!("{head}body{chunked}GET / HTTP/1.1\r\n\r\n"));
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("\r\n\r\nbodyHTTP/1.1 402 "), "{response}");
    assert!(response.ends_with("X-A: b\r\nContent-Length: 2\r\n\r\nno"), "{response}");
    let requests = host.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].head, head.as_bytes());
    assert_eq!((requests[0].text(), requests[0].header("x-odd")), ("body", Some("v")));
    assert_eq!((requests[1].method.as_str(), requests[1].text()), ("PUT", "abc"));
    assert!(requests.iter().all(|it| it.connection == requests[0].connection));
    assert_eq!(requests[0].tls_version, "TLSv1_3");
}

#[test]
fn each_host_has_its_own_certificate() {
    let server = DestinationServer::start();
    for (tls, is_accepted) in [
        (HostTls::Trusted, true),
        (HostTls::Tls12, true),
        (HostTls::OtherName, false),
        (HostTls::UnknownAuthority, false),
        (HostTls::Expired, false),
        (HostTls::Garbage, false),
        (HostTls::Close, false),
    ] {
        let host = server.host_with(tls, HttpVersions::Http1, &[]);
        let mut stream = connect(&server, &host);
        let sent = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").and_then(|()| stream.flush());
        let received = sent.and_then(|()| stream.read(&mut [0; 1]));
        assert_eq!(received.is_ok_and(|it| it == 1), is_accepted, "{tls:?}");
        assert_eq!(host.connections(), 1, "{tls:?}");
        assert_eq!(host.request_count(), usize::from(is_accepted), "{tls:?}");
    }
    assert_eq!(server.connections(), 7);
}

#[test]
fn gated_response_waits_for_the_test() {
    let server = DestinationServer::start();
    let raw = DestinationBehavior::Raw(b"any bytes".to_vec()).gated();
    let host = server.host(&[raw]);
    let response = std::thread::scope(|scope| {
        let call = scope.spawn(|| exchange(&server, &host, "GET / HTTP/1.1\r\n\r\n"));
        host.wait_for_requests(1);
        assert!(!call.is_finished());
        host.open_gate(1);
        call.join().unwrap()
    });
    assert_eq!(response, "any bytes");
}
