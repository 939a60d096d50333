//! Certificates, and a TLS client for both HTTP versions.

use std::{any::Any, fs, net::SocketAddr, os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName},
};
use scrip_testing::process::harness::ProcessHarness;
use tokio::{net::TcpStream, sync::mpsc, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Writes a certificate for localhost to the files that the settings name.
pub(crate) fn create_certificate(process: &ProcessHarness) -> CertificateDer<'static> {
    create_certificate_with(process, |_| ())
}

/// Writes a certificate for localhost, with other dates for example.
pub(crate) fn create_certificate_with(
    process: &ProcessHarness,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a host name");
    change(&mut params);
    let key = KeyPair::generate().expect("generate a key");
    let certificate = params.self_signed(&key).expect("generate a certificate");
    fs::write(process.path("key.pem"), key.serialize_pem()).expect("write the file");
    let private_mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(process.path("key.pem"), private_mode).expect("its owner's");
    fs::write(process.path("cert.pem"), certificate.pem()).expect("write the file");
    certificate.der().clone()
}

pub(crate) fn with_tls(process: ProcessHarness) -> ProcessHarness {
    let process = process
        .with_variable("SCRIP_TLS_CERTIFICATE", "cert.pem")
        .with_variable("SCRIP_TLS_KEY", "key.pem");
    process.with_variable("SCRIP_TLS_RELOAD_SECONDS", "1")
}

/// Opens a connection that trusts only this certificate.
pub(crate) async fn connect(
    address: SocketAddr,
    trusted_certificate: &CertificateDer<'static>,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted_certificate.clone()).expect("a certificate");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config =
        config.expect("supported TLS versions").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    timeout(TIMEOUT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await?
}

pub(crate) type TestBody = BoxBody<Bytes, std::io::Error>;

/// Returns a body that the test sends in parts. The body ends when the sender is dropped.
pub(crate) fn channel_body() -> (mpsc::Sender<Bytes>, TestBody) {
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    let pieces = stream::unfold(receiver, async |mut it| {
        let piece = it.recv().await?;
        Some((Ok(Frame::data(piece)), it))
    });
    (sender, BodyExt::boxed(StreamBody::new(Box::pin(pieces))))
}

/// Sends one request on its own connection. Returns the response when it arrives.
pub(crate) async fn send(
    stream: TlsStream<TcpStream>,
    request: Request<TestBody>,
) -> hyper::Result<Response<Incoming>> {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    if is_h2 {
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        let (mut sender, connection) = handshake;
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection);
        sender.send_request(request).await
    }
}

/// Opens an idle connection. It stays open until the returned value is dropped.
pub(crate) async fn hold_open(stream: TlsStream<TcpStream>) -> hyper::Result<Box<dyn Any>> {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(stream);
    if is_h2 {
        let handshake =
            hyper::client::conn::http2::handshake::<_, _, TestBody>(TokioExecutor::new(), io);
        let (sender, connection) = handshake.await?;
        tokio::spawn(connection);
        Ok(Box::new(sender))
    } else {
        Ok(Box::new(io))
    }
}

pub(crate) async fn body_text(response: Response<Incoming>) -> String {
    let bytes = timeout(TIMEOUT, response.into_body().collect()).await.expect("in time");
    String::from_utf8(bytes.expect("a complete body").to_bytes().to_vec()).expect("UTF-8 text")
}
