//! Destinations on this machine, over plain TCP or TLS.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

pub(crate) trait PeerIo: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> PeerIo for S {}

pub(crate) type PeerStream = Box<dyn PeerIo>;
type Handling = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A running destination. It stops when dropped.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) log: PeerLog,
    task: JoinHandle<()>,
}

/// What a destination saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerLog {
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    closed: Arc<AtomicUsize>,
}

impl PeerLog {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Connections that the handler ended.
    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn record(&self, request: String) {
        self.requests.lock().unwrap().push(request);
    }
}

impl Peer {
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Handles each connection with a function, after the TLS handshake if there is one.
    pub(crate) async fn start<F, H>(tls: Option<ServerConfig>, handle: H) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
        H: Fn(PeerStream, PeerLog) -> F + Send + Sync + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        Self::start_on(listener, tls, handle)
    }

    pub(crate) fn start_on<F, H>(
        listener: TcpListener,
        tls: Option<ServerConfig>,
        handle: H,
    ) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
        H: Fn(PeerStream, PeerLog) -> F + Send + Sync + 'static,
    {
        let address = listener.local_addr().unwrap();
        let log = PeerLog::default();
        let acceptor = tls.map(|it| TlsAcceptor::from(Arc::new(it)));
        let handle = move |stream, log| -> Handling { Box::pin(handle(stream, log)) };
        let task = tokio::spawn(accept(listener, acceptor, Arc::new(handle), log.clone()));
        Self { address, log, task }
    }

    /// A server that records requests and responds with method, target, host and body.
    pub(crate) async fn start_echo(tls: Option<ServerConfig>) -> Self {
        Self::start(tls, serve_echo).await
    }

    /// Reads one request and writes these bytes, then closes the connection.
    pub(crate) async fn start_canned(tls: Option<ServerConfig>, response: Vec<u8>) -> Self {
        Self::start(tls, move |mut stream, log| {
            let response = response.clone();
            async move {
                log.record(read_request(&mut stream).await?);
                stream.write_all(&response).await?;
                stream.shutdown().await
            }
        })
        .await
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    handle: Arc<dyn Fn(PeerStream, PeerLog) -> Handling + Send + Sync>,
    log: PeerLog,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        log.connections.fetch_add(1, Ordering::SeqCst);
        let (acceptor, handle, log) = (acceptor.clone(), Arc::clone(&handle), log.clone());
        tokio::spawn(async move {
            let stream: PeerStream = match acceptor {
                None => Box::new(stream),
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => Box::new(stream),
                    Err(_) => return,
                },
            };
            // A client that goes away is part of many tests.
            drop(handle(stream, log.clone()).await);
            log.closed.fetch_add(1, Ordering::SeqCst);
        });
    }
}

async fn serve_echo(stream: PeerStream, log: PeerLog) -> io::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        let log = log.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
            let host = parts.headers.get("host").map(|it| it.to_str().unwrap().to_owned());
            let host = host.or_else(|| parts.uri.authority().map(ToString::to_string));
            let target = parts.uri.path_and_query().map_or("", |it| it.as_str());
            let body = String::from_utf8(body.to_vec()).unwrap();
            let line = format!("{} {target} {} {body}", parts.method, host.unwrap());
            log.record(line.clone());
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(line))))
        }
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}

/// Reads the head and the body of an HTTP/1.1 request.
pub(crate) async fn read_request(stream: &mut PeerStream) -> io::Result<String> {
    let head = read_head(stream).await?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(format!("{head}{}", String::from_utf8_lossy(&body)))
}

pub(crate) async fn read_head(stream: &mut PeerStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

/// Waits until a condition holds.
pub(crate) async fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}
