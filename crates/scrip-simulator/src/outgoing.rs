//! Calls to a 3DS server, over real connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::http::{Method, Request, Uri, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::settings::{Results, Unusable};

/// Why there is no answer. Never the address: it carries a secret of the 3DS server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the address cannot be used")]
    Address,
    #[error("no connection: {0}")]
    Connect(io::Error),
    #[error("the address is not on this machine")]
    Elsewhere,
    #[error("the exchange broke off: {0}")]
    Http(#[from] hyper::Error),
    #[error("the answer is no message")]
    Answer,
    #[error("no answer in time")]
    TimedOut,
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    tls: Arc<ClientConfig>,
    results: Results,
    has_roots: bool,
    timeout: Duration,
}

impl Outgoing {
    pub(crate) fn new(roots: &[u8], results: Results, timeout: Duration) -> Result<Self, Unusable> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(roots) {
            let certificate = certificate.map_err(|_| Unusable::TrustedRoots)?;
            store.add(certificate).map_err(|_| Unusable::TrustedRoots)?;
        }
        if store.is_empty() && !roots.is_empty() {
            return Err(Unusable::TrustedRoots);
        }
        let has_roots = !store.is_empty();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| Unusable::TrustedRoots)?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(config), results, has_roots, timeout })
    }

    /// The body of the answer, whatever its status says: a message is one that can be read.
    pub(crate) async fn post(&self, address: &str, body: Vec<u8>) -> Result<Bytes, Failure> {
        let exchange = self.exchange(address, Bytes::from(body));
        timeout(self.timeout, exchange).await.unwrap_or(Err(Failure::TimedOut))
    }

    async fn exchange(&self, address: &str, body: Bytes) -> Result<Bytes, Failure> {
        let uri: Uri = address.parse().map_err(|_| Failure::Address)?;
        let host = uri.host().ok_or(Failure::Address)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let found = lookup_host((bare.as_str(), port)).await.map_err(Failure::Connect)?;
        let mut found: Vec<_> = found.collect();
        if !self.is_allowed(&uri) {
            found.retain(is_near);
        }
        if found.is_empty() {
            return Err(Failure::Elsewhere);
        }
        let stream = TcpStream::connect(found.as_slice()).await.map_err(Failure::Connect)?;
        let request = request(&uri, body)?;
        if tls {
            let name = ServerName::try_from(bare).map_err(|_| Failure::Address)?;
            let connector = TlsConnector::from(Arc::clone(&self.tls));
            let stream = connector.connect(name, stream).await.map_err(Failure::Connect)?;
            send(stream, request).await
        } else {
            send(stream, request).await
        }
    }

    /// Whether an address may be on any machine.
    fn is_allowed(&self, uri: &Uri) -> bool {
        let authority = uri.authority().map_or("", |it| it.as_str());
        match &self.results {
            Results::Anywhere => true,
            Results::AndTo(it) if it.eq_ignore_ascii_case(authority) => true,
            Results::AndTo(_) | Results::ThisMachine => {
                self.has_roots && uri.scheme_str() == Some("https")
            }
        }
    }
}

/// Nobody else gets a connection that way; the unspecified address is this machine's too.
fn is_near(address: &SocketAddr) -> bool {
    let address = address.ip().to_canonical();
    address.is_loopback() || address.is_unspecified()
}

fn request(uri: &Uri, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let host = uri.authority().ok_or(Failure::Address)?.as_str();
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(Full::new(body))
        .map_err(|_| Failure::Address)
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, Failure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let body = Limited::new(answer.into_body(), MESSAGE_BYTES_MAX).collect().await;
    driver.abort();
    Ok(body.map_err(|_| Failure::Answer)?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(results: Results) -> Outgoing {
        Outgoing::new(&[], results, Duration::from_secs(60)).unwrap()
    }

    #[tokio::test]
    async fn nobody_elsewhere_is_sent_a_result() {
        let outgoing = outgoing(Results::ThisMachine);
        for address in ["http://192.0.2.1:1/results", "https://[2001:db8::1]:1/results"] {
            let sent = outgoing.post(address, Vec::new()).await;
            assert!(matches!(sent, Err(Failure::Elsewhere)), "{sent:?}");
        }
        let sent = outgoing.post("http://127.0.0.1:1/results", Vec::new()).await;
        assert!(matches!(sent, Err(Failure::Connect(_))), "{sent:?}");
    }

    #[test]
    fn unless_it_is_allowed() {
        let is_allowed =
            |results: Results, it: &str| outgoing(results).is_allowed(&it.parse().unwrap());
        let (there, other) = ("http://vault.example:4242/x", "http://vault.example/x");
        assert!(is_allowed(Results::Anywhere, there));
        let this = || Results::AndTo("vault.example:4242".to_owned());
        assert!(is_allowed(this(), there) && !is_allowed(this(), other));
        assert!(!is_allowed(Results::ThisMachine, there));
        let secure: Uri = "https://vault.example/x".parse().unwrap();
        let trusting = Outgoing { has_roots: true, ..outgoing(Results::ThisMachine) };
        assert!(trusting.is_allowed(&secure) && !trusting.is_allowed(&there.parse().unwrap()));
        assert!(!outgoing(Results::ThisMachine).is_allowed(&secure));
    }
}
