//! HTTP requests to a 3DS server, over real connections.

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

use crate::settings::{ResultDestinations, StartError};

/// Why there is no response. Never contains the address, which includes a secret of the 3DS server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutgoingError {
    #[error("invalid result address")]
    InvalidAddress,
    #[error("connection failed: {0}")]
    Connect(io::Error),
    #[error("result host not allowed (see the result destinations setting)")]
    HostNotAllowed,
    #[error("HTTP exchange failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("invalid response message")]
    InvalidResponse,
    #[error("response timed out")]
    TimedOut,
}

#[derive(Debug)]
pub(crate) struct OutgoingClient {
    tls: Arc<ClientConfig>,
    destinations: ResultDestinations,
    has_trusted_roots: bool,
    timeout: Duration,
}

impl OutgoingClient {
    pub(crate) fn new(
        roots: &[u8],
        destinations: ResultDestinations,
        timeout: Duration,
    ) -> Result<Self, StartError> {
        let mut store = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(roots) {
            let certificate = certificate.map_err(|_| StartError::TrustedRoots)?;
            store.add(certificate).map_err(|_| StartError::TrustedRoots)?;
        }
        if store.is_empty() && !roots.is_empty() {
            return Err(StartError::TrustedRoots);
        }
        let has_roots = !store.is_empty();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| StartError::TrustedRoots)?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(config), destinations, has_trusted_roots: has_roots, timeout })
    }

    /// Returns the response body for any HTTP status: only the message in the body counts.
    pub(crate) async fn post(&self, address: &str, body: Vec<u8>) -> Result<Bytes, OutgoingError> {
        let exchange = self.exchange(address, Bytes::from(body));
        timeout(self.timeout, exchange).await.unwrap_or(Err(OutgoingError::TimedOut))
    }

    async fn exchange(&self, address: &str, body: Bytes) -> Result<Bytes, OutgoingError> {
        let uri: Uri = address.parse().map_err(|_| OutgoingError::InvalidAddress)?;
        let host = uri.host().ok_or(OutgoingError::InvalidAddress)?;
        let host_name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let addresses =
            lookup_host((host_name.as_str(), port)).await.map_err(OutgoingError::Connect)?;
        let mut addresses: Vec<_> = addresses.collect();
        if !self.is_remote_allowed(&uri) {
            addresses.retain(is_local_address);
        }
        if addresses.is_empty() {
            return Err(OutgoingError::HostNotAllowed);
        }
        let stream =
            TcpStream::connect(addresses.as_slice()).await.map_err(OutgoingError::Connect)?;
        let request = build_request(&uri, body)?;
        if tls {
            let name =
                ServerName::try_from(host_name).map_err(|_| OutgoingError::InvalidAddress)?;
            let connector = TlsConnector::from(Arc::clone(&self.tls));
            let stream = connector.connect(name, stream).await.map_err(OutgoingError::Connect)?;
            send_request(stream, request).await
        } else {
            send_request(stream, request).await
        }
    }

    /// Whether this address may be on another machine.
    fn is_remote_allowed(&self, uri: &Uri) -> bool {
        let authority = uri.authority().map_or("", |it| it.as_str());
        match &self.destinations {
            ResultDestinations::AnyHost => true,
            ResultDestinations::LoopbackAndHost(it) if it.eq_ignore_ascii_case(authority) => true,
            ResultDestinations::LoopbackAndHost(_) | ResultDestinations::Loopback => {
                self.has_trusted_roots && uri.scheme_str() == Some("https")
            }
        }
    }
}

/// Loopback and unspecified addresses connect only to this machine.
fn is_local_address(address: &SocketAddr) -> bool {
    let address = address.ip().to_canonical();
    address.is_loopback() || address.is_unspecified()
}

fn build_request(uri: &Uri, body: Bytes) -> Result<Request<Full<Bytes>>, OutgoingError> {
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let host = uri.authority().ok_or(OutgoingError::InvalidAddress)?.as_str();
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json; charset=utf-8")
        .body(Full::new(body))
        .map_err(|_| OutgoingError::InvalidAddress)
}

async fn send_request(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Bytes, OutgoingError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let body = Limited::new(response.into_body(), MESSAGE_BYTES_MAX).collect().await;
    driver.abort();
    Ok(body.map_err(|_| OutgoingError::InvalidResponse)?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_with(destinations: ResultDestinations) -> OutgoingClient {
        OutgoingClient::new(&[], destinations, Duration::from_secs(60)).unwrap()
    }

    #[tokio::test]
    async fn results_to_remote_hosts_are_rejected_by_default() {
        let client = client_with(ResultDestinations::Loopback);
        for address in ["http://192.0.2.1:1/results", "https://[2001:db8::1]:1/results"] {
            let outcome = client.post(address, Vec::new()).await;
            assert!(matches!(outcome, Err(OutgoingError::HostNotAllowed)), "{outcome:?}");
        }
        let outcome = client.post("http://127.0.0.1:1/results", Vec::new()).await;
        assert!(matches!(outcome, Err(OutgoingError::Connect(_))), "{outcome:?}");
    }

    #[test]
    fn remote_hosts_are_allowed_by_setting_or_trusted_roots() {
        let is_allowed = |results: ResultDestinations, it: &str| {
            client_with(results).is_remote_allowed(&it.parse().unwrap())
        };
        let (allowed, other) = ("http://vault.example:4242/x", "http://vault.example/x");
        assert!(is_allowed(ResultDestinations::AnyHost, allowed));
        let allow_vault = || ResultDestinations::LoopbackAndHost("vault.example:4242".to_owned());
        assert!(is_allowed(allow_vault(), allowed) && !is_allowed(allow_vault(), other));
        assert!(!is_allowed(ResultDestinations::Loopback, allowed));
        let secure: Uri = "https://vault.example/x".parse().unwrap();
        let with_roots =
            OutgoingClient { has_trusted_roots: true, ..client_with(ResultDestinations::Loopback) };
        assert!(
            with_roots.is_remote_allowed(&secure)
                && !with_roots.is_remote_allowed(&allowed.parse().unwrap())
        );
        assert!(!client_with(ResultDestinations::Loopback).is_remote_allowed(&secure));
    }
}
