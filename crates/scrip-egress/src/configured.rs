//! Requests to servers that the operator configured, such as key services and directory servers.
//!
//! The guard of destinations does not apply, because such a server may be on this machine. Each
//! request has a connection of its own: on a reused one it would be unknown whether the server got a
//! request that failed. Redirects are not followed.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Body, Incoming},
    client::conn::http1,
    header::{CONNECTION, HOST},
    http::request,
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::connect::stream::{ByteCounts, CountedTcp, EgressStream};

const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The capacity for a response that does not announce its length.
const RESPONSE_BYTES_TYPICAL: usize = 64 * 1024;

/// The address of a server, and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub is_https: bool,
    /// A host name or an IP address, without brackets.
    pub host: String,
    /// `None` for the port of the scheme.
    pub port: Option<u16>,
    /// The value of the header `Host`.
    pub authority: String,
    pub path: String,
}

impl ServerAddress {
    /// Parses a URL with the scheme `http` or `https`, without a user and a fragment.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let is_https = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority().filter(|it| !it.as_str().contains('@'))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16();
        // An empty or invalid port is no port of the scheme.
        let port_text = authority.as_str().rsplit_once(':').filter(|(_, it)| !it.ends_with(']'));
        if host.is_empty() || (port_text.is_some() && port.is_none()) || text.contains('#') {
            return None;
        }
        let path = uri.path_and_query().map_or("/", |it| it.as_str()).to_owned();
        Some(Self { is_https, host, port, authority: authority.as_str().to_owned(), path })
    }

    pub fn port_number(&self) -> u16 {
        self.port.unwrap_or(if self.is_https { 443 } else { 80 })
    }

    /// The name in the certificate of the server.
    pub fn server_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.host.clone()).ok()
    }

    /// A request with the headers of the connection.
    pub fn request(&self, method: Method, path: &str) -> request::Builder {
        let request = Request::builder().method(method).uri(path);
        request.header(HOST, &self.authority).header(CONNECTION, "close")
    }
}

/// How to connect to a server.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Required for https, unused for http.
    pub tls: Option<Arc<ClientConfig>>,
    /// The addresses of the host that a request may go to.
    pub is_allowed: fn(IpAddr) -> bool,
    /// For each address, so that one that drops packets does not use up the deadline of the request.
    pub address_timeout: Duration,
}

/// Why there is no connection. No byte of the request left.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot resolve the host: {0}")]
    Lookup(io::ErrorKind),
    #[error("the host has no address")]
    NoAddress,
    #[error("requests to the address {0} are not allowed")]
    NotAllowed(IpAddr),
    #[error("{0}: connect timeout")]
    Timeout(SocketAddr),
    #[error("{0}: {1}")]
    Connect(SocketAddr, io::ErrorKind),
    #[error("no TLS connection: {0}")]
    Tls(io::Error),
}

/// A connection for one request.
#[derive(Debug)]
pub struct ServerConnection {
    stream: EgressStream,
    sent: SentBytes,
}

/// Whether a byte of the request has left. Bytes that were only buffered have not.
#[derive(Debug, Clone)]
pub struct SentBytes {
    counts: ByteCounts,
    before_request: u64,
}

impl SentBytes {
    pub fn has_left(&self) -> bool {
        self.counts.written() != self.before_request
    }
}

/// The response of a server.
pub struct ServerResponse {
    pub status: StatusCode,
    pub body: Zeroizing<Vec<u8>>,
}

/// Without the body, which may contain a key.
impl fmt::Debug for ServerResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServerResponse({})", self.status)
    }
}

/// Why there is no response. Contains no data of the server.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("timeout")]
    Timeout,
    #[error("the answer is not HTTP")]
    NotHttp,
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("the connection failed")]
    Failed,
    #[error("the answer has more than {bytes_max} bytes")]
    TooLarge { status: StatusCode, bytes_max: usize },
}

impl From<hyper::Error> for ExchangeError {
    fn from(error: hyper::Error) -> Self {
        if error.is_timeout() {
            Self::Timeout
        } else if error.is_parse() {
            Self::NotHttp
        } else if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            Self::Closed
        } else {
            Self::Failed
        }
    }
}

/// Connects to the first address of the host that accepts a connection.
pub async fn connect(
    address: &ServerAddress,
    options: &ConnectOptions,
) -> Result<ServerConnection, ConnectError> {
    let target = (address.host.as_str(), address.port_number());
    let addresses = lookup_host(target).await.map_err(|it| ConnectError::Lookup(it.kind()))?;
    let mut failure = ConnectError::NoAddress;
    for target in addresses {
        if !(options.is_allowed)(target.ip()) {
            failure = ConnectError::NotAllowed(target.ip());
            continue;
        }
        match timeout(options.address_timeout, TcpStream::connect(target)).await {
            Ok(Ok(stream)) => return start_tls(address, stream, options).await,
            Ok(Err(error)) => failure = ConnectError::Connect(target, error.kind()),
            Err(_) => failure = ConnectError::Timeout(target),
        }
    }
    Err(failure)
}

async fn start_tls(
    address: &ServerAddress,
    stream: TcpStream,
    options: &ConnectOptions,
) -> Result<ServerConnection, ConnectError> {
    stream.set_nodelay(true).map_err(ConnectError::Tls)?;
    let stream = CountedTcp::new(stream);
    let stream = match address.is_https {
        false => EgressStream::Plain(stream),
        true => {
            let missing = || ConnectError::Tls(io::ErrorKind::InvalidInput.into());
            let config = options.tls.clone().ok_or_else(missing)?;
            let name = address.server_name().ok_or_else(missing)?;
            let handshake = TlsConnector::from(config).connect(name, stream);
            EgressStream::Tls(Box::new(handshake.await.map_err(ConnectError::Tls)?))
        }
    };
    let counts = stream.byte_counts();
    let sent = SentBytes { before_request: counts.written(), counts };
    Ok(ServerConnection { stream, sent })
}

impl ServerConnection {
    /// Stays valid when the exchange is cancelled.
    pub fn sent(&self) -> SentBytes {
        self.sent.clone()
    }

    /// Sends the request and reads the response. The caller limits the time.
    pub async fn exchange(
        self,
        request: Request<Full<Bytes>>,
        response_bytes_max: usize,
    ) -> Result<ServerResponse, ExchangeError> {
        let mut builder = http1::Builder::new();
        // Vectored writes avoid a copy of the body in a buffer that is not wiped.
        builder.writev(true).max_buf_size(HEAD_BYTES_MAX);
        let (mut sender, connection) = builder.handshake(TokioIo::new(self.stream)).await?;
        let response = async {
            let response = sender.send_request(request).await?;
            read_response(response, response_bytes_max).await
        };
        let (mut response, mut connection) = (pin!(response), pin!(connection));
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                result = &mut response => return result,
                // The other future returns the error of the connection.
                _ = &mut connection, if is_open => is_open = false,
            }
        }
    }
}

async fn read_response(
    response: Response<Incoming>,
    bytes_max: usize,
) -> Result<ServerResponse, ExchangeError> {
    let status = response.status();
    let mut body = response.into_body();
    let hint = body.size_hint();
    let announced_length = usize::try_from(hint.lower()).unwrap_or(usize::MAX);
    if announced_length > bytes_max {
        return Err(ExchangeError::TooLarge { status, bytes_max });
    }
    let capacity = match hint.exact() {
        Some(_) => announced_length,
        None => bytes_max.min(RESPONSE_BYTES_TYPICAL),
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len().saturating_add(data.len()) > bytes_max {
            return Err(ExchangeError::TooLarge { status, bytes_max });
        }
        append_wiped(&mut bytes, &data);
    }
    Ok(ServerResponse { status, body: bytes })
}

/// Appends to a buffer that leaves no copy in memory when it grows.
fn append_wiped(bytes: &mut Zeroizing<Vec<u8>>, data: &[u8]) {
    let needed = bytes.len().saturating_add(data.len());
    if needed > bytes.capacity() {
        let capacity = needed.max(bytes.capacity().saturating_mul(2));
        let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
        larger.extend_from_slice(bytes);
        *bytes = larger;
    }
    bytes.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const OPTIONS: ConnectOptions = ConnectOptions {
        tls: None,
        is_allowed: |it| it.is_loopback(),
        address_timeout: Duration::from_secs(5),
    };

    #[test]
    fn address_has_host_port_and_path_of_its_url() {
        for (text, host, port, path) in [
            ("https://ds.example", "ds.example", 443, "/"),
            ("http://ds.example", "ds.example", 80, "/"),
            ("https://ds.example/a/b?c=d", "ds.example", 443, "/a/b?c=d"),
            ("https://127.0.0.1:8443/x", "127.0.0.1", 8443, "/x"),
            ("https://[::1]:8443/x", "::1", 8443, "/x"),
            ("https://[::1]/x", "::1", 443, "/x"),
        ] {
            let it = ServerAddress::parse(text).unwrap();
            assert_eq!(it.is_https, text.starts_with("https"));
            assert_eq!((it.host.as_str(), it.port_number(), it.path.as_str()), (host, port, path));
        }
        for text in [
            "",
            "ds.example",
            "ftp://a",
            "https://",
            "https://u@a",
            "https://a:99999/",
            "https://a:/",
            "https://a/#b",
        ] {
            assert_eq!(ServerAddress::parse(text), None, "{text}");
        }
    }

    async fn exchange_with<F: Future<Output = ()>>(
        serve: impl FnOnce(TcpStream) -> F,
    ) -> (Result<ServerResponse, ExchangeError>, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/path", listener.local_addr().unwrap());
        let address = ServerAddress::parse(&url).unwrap();
        let connection = connect(&address, &OPTIONS).await.unwrap();
        let request = address.request(Method::POST, &address.path);
        let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let sent = connection.sent();
        assert!(!sent.has_left());
        let served = async { serve(listener.accept().await.unwrap().0).await };
        let (result, ()) = tokio::join!(connection.exchange(request, 100_000), served);
        (result, sent.has_left())
    }

    async fn read_request(stream: &mut TcpStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n{}") {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0, "a request");
        }
    }

    #[tokio::test]
    async fn chunked_response_is_read_and_counts_as_sent() {
        let (result, has_left) = exchange_with(|mut stream| async move {
            read_request(&mut stream).await;
            let head = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n";
            stream.write_all(head).await.unwrap();
            for _ in 0..9 {
                let chunk = [b"2710\r\n", "x".repeat(10_000).as_bytes(), b"\r\n"].concat();
                stream.write_all(&chunk).await.unwrap();
            }
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        })
        .await;
        let response = result.ok().unwrap();
        assert_eq!((response.status.as_u16(), response.body.len(), has_left), (201, 90_000, true));
    }

    #[tokio::test]
    async fn large_or_incomplete_response_is_an_error() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n", "more than 100000 bytes"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{}", "the connection"),
            ("SSH-2.0\r\n\r\n", "not HTTP"),
        ] {
            let (result, has_left) = exchange_with(|mut stream| async move {
                read_request(&mut stream).await;
                stream.write_all(head.as_bytes()).await.unwrap();
            })
            .await;
            let error = result.err().unwrap().to_string();
            assert!(error.contains(expected) && has_left, "{head}: {error}");
        }
    }

    #[tokio::test]
    async fn address_that_is_not_allowed_gets_no_connection() {
        let address = ServerAddress::parse("http://192.0.2.1:9").unwrap();
        let result = connect(&address, &OPTIONS).await;
        assert!(matches!(result, Err(ConnectError::NotAllowed(_))));
    }
}
