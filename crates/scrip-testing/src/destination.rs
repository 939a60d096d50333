//! A destination of proxied requests for tests: a server on a loopback port with any number of host
//! names.
//!
//! It records every request byte for byte, and each host has its own behavior, certificate and HTTP
//! version.
//!
//! All hosts share one port, so that the allow-list of a server under test names one port.

pub mod authority;
pub mod behavior;
mod host_state;
mod http1;
mod http2;
mod request;
pub mod token_events;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use rustls::server::Acceptor;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::Semaphore,
};
use tokio_rustls::LazyConfigAcceptor;

use crate::destination::{
    authority::{DestinationAuthority, HostTls, HttpVersions},
    behavior::DestinationBehavior,
    host_state::{ConnectionInfo, HostState},
};

pub use crate::destination::request::DestinationRequest;

/// The parent domain of all hosts. Its names never exist in the public DNS.
pub const DESTINATION_DOMAIN: &str = "destination.test";
/// The host that a destination without TLS serves.
const PLAIN_HOST: &str = "localhost";

/// A server with its own runtime, which ends when the server is dropped.
pub struct DestinationServer {
    pub address: SocketAddr,
    pub authority: Arc<DestinationAuthority>,
    state: Arc<ServerState>,
    _runtime: Runtime,
}

#[derive(Default)]
struct ServerState {
    hosts: Mutex<HashMap<String, Arc<HostState>>>,
    next_host: AtomicUsize,
    connections: AtomicUsize,
}

impl DestinationServer {
    /// Starts a server with TLS, without hosts.
    pub fn start() -> Self {
        Self::start_with(accept_tls)
    }

    /// Starts a server without TLS. Its only host is the loopback address.
    pub fn start_plain(behaviors: &[DestinationBehavior]) -> (Self, DestinationHost) {
        let server = Self::start_with(accept_plain);
        let host = server.insert_host(
            PLAIN_HOST.to_owned(),
            HostTls::Trusted,
            HttpVersions::Http1,
            behaviors,
        );
        (server, host)
    }

    fn start_with<F>(
        accept: fn(TcpStream, Arc<ServerState>, Arc<DestinationAuthority>) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("destination")
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let authority = Arc::new(DestinationAuthority::new());
        let state = Arc::new(ServerState::default());
        let (server_state, server_authority) = (Arc::clone(&state), Arc::clone(&authority));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(stream.set_nodelay(true));
                let (state, authority) = (Arc::clone(&server_state), Arc::clone(&server_authority));
                tokio::spawn(accept(stream, state, authority));
            }
        });
        Self { address, authority, state, _runtime: runtime }
    }

    /// Adds a host with a new name. It has a certificate of the authority.
    pub fn host(&self, behaviors: &[DestinationBehavior]) -> DestinationHost {
        self.host_with(HostTls::Trusted, HttpVersions::Http1, behaviors)
    }

    pub fn host_with(
        &self,
        tls: HostTls,
        versions: HttpVersions,
        behaviors: &[DestinationBehavior],
    ) -> DestinationHost {
        let number = self.state.next_host.fetch_add(1, Ordering::Relaxed);
        self.insert_host(format!("host-{number}.{DESTINATION_DOMAIN}"), tls, versions, behaviors)
    }

    fn insert_host(
        &self,
        name: String,
        tls: HostTls,
        versions: HttpVersions,
        behaviors: &[DestinationBehavior],
    ) -> DestinationHost {
        let state = Arc::new(HostState {
            name: name.clone(),
            tls,
            versions,
            behaviors: Mutex::new(behaviors.iter().cloned().collect()),
            received: Mutex::default(),
            connections: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        });
        self.state.hosts.lock().unwrap().insert(name, Arc::clone(&state));
        DestinationHost { port: self.address.port(), state }
    }

    /// The number of accepted connections of all hosts, with and without a TLS handshake.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

/// A host of a destination server.
pub struct DestinationHost {
    port: u16,
    state: Arc<HostState>,
}

impl DestinationHost {
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The host with its port.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.state.name, self.port)
    }

    /// The URL of this path, which begins with a slash or is empty.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.state.name == PLAIN_HOST { "http" } else { "https" };
        format!("{scheme}://{}{path}", self.authority())
    }

    pub fn requests(&self) -> Vec<DestinationRequest> {
        self.state.received.lock().unwrap().clone()
    }

    /// Returns the only request. Panics if there is none or if there are several.
    #[track_caller]
    pub fn single_request(&self) -> DestinationRequest {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "the number of requests at the destination");
        requests.remove(0)
    }

    /// Returns the most recent request.
    #[track_caller]
    pub fn last_request(&self) -> DestinationRequest {
        self.requests().pop().expect("the destination received a request")
    }

    /// Waits until this number of requests has arrived.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) {
        for _ in 0..1500 {
            if self.request_count() >= count {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("{} of {count} requests arrived", self.request_count());
    }

    pub fn request_count(&self) -> usize {
        self.state.received.lock().unwrap().len()
    }

    /// The number of connections with a handshake for this host.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Sets the behaviors for the next requests.
    pub fn set_behaviors(&self, behaviors: &[DestinationBehavior]) {
        *self.state.behaviors.lock().unwrap() = behaviors.iter().cloned().collect();
    }

    /// Lets this number of gated responses continue.
    pub fn open_gate(&self, responses: usize) {
        self.state.gate.add_permits(responses);
    }
}

async fn accept_plain(stream: TcpStream, state: Arc<ServerState>, _: Arc<DestinationAuthority>) {
    let connection = state.connections.fetch_add(1, Ordering::SeqCst);
    let host = state.hosts.lock().unwrap().get(PLAIN_HOST).map(Arc::clone);
    let Some(host) = host else { return };
    host.connections.fetch_add(1, Ordering::SeqCst);
    let connection = ConnectionInfo { number: connection, ..ConnectionInfo::default() };
    http1::serve(stream, &host, &connection).await;
}

async fn accept_tls(
    stream: TcpStream,
    state: Arc<ServerState>,
    authority: Arc<DestinationAuthority>,
) {
    let number = state.connections.fetch_add(1, Ordering::SeqCst);
    let Ok(start) = LazyConfigAcceptor::new(Acceptor::default(), stream).await else { return };
    let name = start.client_hello().server_name().unwrap_or_default().to_owned();
    let host = state.hosts.lock().unwrap().get(&name).map(Arc::clone);
    let Some(host) = host else { return };
    host.connections.fetch_add(1, Ordering::SeqCst);
    if host.tls == HostTls::Garbage {
        let mut stream = start.io;
        drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await);
        return;
    }
    let Some(config) = authority.server_config(&name, host.tls, host.versions) else { return };
    let Ok(stream) = start.into_stream(config).await else { return };
    let (_, session) = stream.get_ref();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(|it| it.first());
    let connection = ConnectionInfo {
        number,
        client_certificate: certificate.map(|it| it.to_vec()),
        tls_version: session.protocol_version().map(|it| format!("{it:?}")).unwrap_or_default(),
    };
    if is_http2 {
        http2::serve(stream, host, connection).await;
    } else {
        http1::serve(stream, &host, &connection).await;
    }
}
