//! The listener: accepts up to a cap for all and one for each client network, gives every connection
//! deadlines, and drains when told to.

pub mod connection;
pub mod connection_counts;
pub mod connection_limits;
pub mod connection_table;
pub mod limited_stream;
pub mod tls;
mod tracked_body;

use std::{
    future::{Future, pending},
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use nix::errno::Errno;
use scrip_api::{app::App, router};
use scrip_core::policy::rate_limit::ClientNetwork;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::server::TlsStream;

use crate::{
    background,
    listen::{
        connection::{Activity, ConnectionService},
        connection_counts::{ConnectionRejection, EvictionReason},
        connection_limits::ConnectionLimits,
        connection_table::{Admission, ConnectionSlot, ConnectionTable, Eviction},
        limited_stream::{LimitedStream, StreamLimits},
        tls::{Certificates, H2},
    },
    metrics::endpoint,
    node::Node,
};

/// The head of a request must fit; a body is read through it in pieces.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;

/// Requests at once on one connection, and what of their bodies may wait to be read: with the cap
/// on connections, this bounds memory.
const STREAMS_MAX: u32 = 100;
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// How long an idle connection that loses its slot may take to say goodbye.
const EVICTION_GRACE: Duration = Duration::from_millis(100);

/// A socket, and how to speak on it: in clear when there are no certificates.
#[derive(Debug)]
pub struct ListenSocket {
    pub tcp: TcpListener,
    pub tls: Option<Arc<Certificates>>,
}

/// Serves in clear until `stop` is ready, then lets what is in flight finish within its deadline.
pub async fn serve_plain(node: Arc<Node>, listener: TcpListener, stop: impl Future<Output = ()>) {
    serve_on(node, ListenSocket { tcp: listener, tls: None }, |it| it, stop).await;
}

/// The same, with certificates or without. `extend` adds routes that are none of the interface.
pub async fn serve_on(
    node: Arc<Node>,
    socket: ListenSocket,
    extend: impl FnOnce(Router) -> Router,
    stop: impl Future<Output = ()>,
) {
    background::start(&node);
    let ListenSocket { tcp, tls } = socket;
    let (app, limits) = (&node.app, &node.settings.connections);
    let front = Arc::new(ConnectionServer::new(&node, tls, extend));
    let (drain, draining) = watch::channel(());
    let table = connection_table(&node);
    let mut is_accept_reported = false;
    let mut stop = pin!(stop);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = tcp.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    recover_from_accept(&node, &table, &error, is_accept_reported).await;
                    is_accept_reported = true;
                    continue;
                }
            },
        };
        // While every connection has a request in progress, further ones wait in the kernel's queue.
        let admitted = tokio::select! {
            () = &mut stop => break,
            admitted = admit(&node, &table, peer) => admitted,
        };
        let Some(place) = admitted else { continue };
        let (front, draining) = (Arc::clone(&front), draining.clone());
        tokio::spawn(async move {
            front.serve_connection(stream, peer, &place, draining).await;
            drop(place);
        });
    }
    drop((tcp, draining));
    drain.send_replace(());
    if timeout(limits.drain_deadline, drain.closed()).await.is_err() {
        tracing::warn!("some requests did not finish before the drain deadline");
    }
    if let Err(error) = app.vault.guess_ledger.flush(&*app.vault.store, app.vault.clock.now()).await
    {
        tracing::warn!(?error, "the last counts of the guessing budget were not written");
    }
    // What was sent cannot be taken back: without its outcome the session would be lost.
    if !app.authentications_in_flight.wait_until_idle(limits.authentication_deadline).await {
        tracing::warn!("the outcome of some authentications is not known");
    }
}

/// As many slots as the settings and the limit of open files allow.
fn connection_table(node: &Node) -> Arc<ConnectionTable> {
    let (connections, limits) = (node.connection_slots(), &node.settings.connections);
    if connections < limits.connections_max {
        tracing::warn!(
            connections,
            "server.connections_max is lowered to what the limit of open files allows; to serve \
             more connections at once raise that limit (LimitNOFILE of systemd, or ulimit -n)"
        );
    }
    ConnectionTable::new(connections, limits.network_connections(connections))
}

/// Without descriptors no client gets an answer until a connection ends: the idlest one is closed.
/// Only the first failure is a warning, since clients can cause many of them.
async fn recover_from_accept(
    node: &Node,
    table: &ConnectionTable,
    error: &io::Error,
    is_reported: bool,
) {
    if is_reported {
        tracing::debug!(%error, "accept failed");
    } else {
        tracing::warn!(%error, "accept failed; further failures are not logged");
    }
    let code = error.raw_os_error().map(Errno::from_raw);
    if !matches!(code, Some(Errno::EMFILE | Errno::ENFILE)) {
        return sleep(Duration::from_millis(50)).await;
    }
    if table.evict_idlest().await {
        node.connections.evicted.increment(EvictionReason::Descriptors);
    }
}

/// A connection's slot, and what it does.
struct AdmittedConnection {
    slot: ConnectionSlot,
    activity: Arc<Activity>,
    node: Arc<Node>,
}

/// A slot for a new connection; none when its network has all of its slots in use.
async fn admit(
    node: &Arc<Node>,
    table: &Arc<ConnectionTable>,
    peer: SocketAddr,
) -> Option<AdmittedConnection> {
    // A proxy speaks for many clients.
    let is_proxy = node.app.trusted_proxies.contains(peer.ip().to_canonical());
    let network = (!is_proxy).then(|| ClientNetwork::from_address(peer.ip()));
    let activity = Arc::new(Activity::with_stall_time(node.settings.connections.evictable_after));
    let counts = &node.connections;
    let (slot, eviction) = match table.admit(network, &activity).await {
        Admission::Admitted(slot, eviction) => (slot, eviction),
        Admission::NetworkFull => {
            counts.rejected.increment(ConnectionRejection::NetworkFull);
            return None;
        }
    };
    match eviction {
        Eviction::None => (),
        Eviction::FromNetwork => counts.evicted.increment(EvictionReason::NetworkFull),
        Eviction::FromAll => counts.evicted.increment(EvictionReason::Full),
    }
    counts.open.fetch_add(1, Ordering::Relaxed);
    counts.accepted.increment();
    Some(AdmittedConnection { slot, activity, node: Arc::clone(node) })
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        let counts = &self.node.connections;
        counts.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(cut) = self.activity.close_reason() {
            counts.closed.increment(cut);
        }
    }
}

/// Ready when the server is to stop.
type DrainSignal = watch::Receiver<()>;

/// What all connections have in common.
struct ConnectionServer {
    app: Arc<App>,
    limits: ConnectionLimits,
    tls: Option<Arc<Certificates>>,
    unsealed_router: Router,
    sealed_router: Router,
    http1_builder: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl ConnectionServer {
    fn new(
        node: &Arc<Node>,
        tls: Option<Arc<Certificates>>,
        extend: impl FnOnce(Router) -> Router,
    ) -> Self {
        let (app, limits) = (Arc::clone(&node.app), node.settings.connections.clone());
        let http1_builder = http1_builder(limits.header_deadline, BUFFER_BYTES_MAX);
        let http2 = http2_builder(&limits);
        let open = router::router(&app, |it| extend(endpoint::with_metrics(it, node)));
        let sealed = router::sealed_router(&app, |it| endpoint::with_metrics(it, node));
        Self {
            app,
            limits,
            tls,
            unsealed_router: open,
            sealed_router: sealed,
            http1_builder,
            http2,
        }
    }

    /// One connection, from its first byte to its last. A client that breaks off is no event of
    /// ours.
    async fn serve_connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        admitted: &AdmittedConnection,
        draining: DrainSignal,
    ) {
        // Answers are written whole, so there is nothing to wait for.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "nodelay");
        }
        let service = ConnectionService {
            app: Arc::clone(&self.app),
            unsealed_router: self.unsealed_router.clone(),
            sealed_router: self.sealed_router.clone(),
            peer,
            activity: Arc::clone(&admitted.activity),
        };
        let limits = StreamLimits::from_connection_limits(&self.limits);
        let stream = LimitedStream::new(stream, limits, Arc::clone(&admitted.activity));
        let Some(tls) = &self.tls else {
            let connection = self.http1_builder.serve_connection(TokioIo::new(stream), service);
            return self.run_connection(connection, admitted, draining, pending()).await;
        };
        let shaken = self.accept_tls(tls, stream, admitted, draining.clone()).await;
        let Some(stream) = shaken else { return };
        if stream.get_ref().1.alpn_protocol() == Some(H2) {
            let idle = Arc::clone(&admitted.activity).wait_until_idle(self.limits.header_deadline);
            let connection = self.http2.serve_connection(TokioIo::new(stream), service);
            self.run_connection(connection, admitted, draining, idle).await;
        } else {
            let connection = self.http1_builder.serve_connection(TokioIo::new(stream), service);
            self.run_connection(connection, admitted, draining, pending()).await;
        }
    }

    /// A client that is silent or slow is cut off, and so is one that has not said anything yet
    /// when the server stops.
    async fn accept_tls(
        &self,
        tls: &Certificates,
        stream: LimitedStream<TcpStream>,
        admitted: &AdmittedConnection,
        mut draining: DrainSignal,
    ) -> Option<TlsStream<LimitedStream<TcpStream>>> {
        let shaking = timeout(self.limits.header_deadline, tls.acceptor().accept(stream));
        tokio::select! {
            shaken = shaking => shaken.ok()?.ok(),
            () = admitted.slot.evicted.notified() => None,
            _ = draining.changed() => None,
        }
    }

    /// Lets a connection run until it ends, until the server stops, until it was idle for too long,
    /// or until another one takes its slot; the last three let requests in flight finish.
    async fn run_connection(
        &self,
        connection: impl GracefulConnection,
        admitted: &AdmittedConnection,
        mut draining: DrainSignal,
        idle: impl Future<Output = ()>,
    ) {
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => (),
            _ = draining.changed() => {
                // The server waits for all of them together, up to its deadline.
                connection.as_mut().graceful_shutdown();
                drop(connection.await);
            }
            () = idle => {
                connection.as_mut().graceful_shutdown();
                drop(timeout(self.limits.drain_deadline, connection).await);
            }
            () = admitted.slot.evicted.notified() => {
                // A request may have begun since the choice was made.
                let is_idle = admitted.activity.idle_since().is_some();
                let maximum = if is_idle { EVICTION_GRACE } else { self.limits.drain_deadline };
                connection.as_mut().graceful_shutdown();
                drop(timeout(maximum, connection).await);
            }
        }
    }
}

/// The deadline is for the head of a request, which must fit into the buffer.
pub(crate) fn http1_builder(header_deadline: Duration, buffer_bytes_max: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_deadline)
        .max_buf_size(buffer_bytes_max);
    builder
}

/// Under TLS only. Telling HTTP/2 from HTTP/1.1 in clear means to wait for a client's first bytes
/// without a deadline; over TLS the handshake tells.
fn http2_builder(limits: &ConnectionLimits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        // A peer that vanished without a word does not answer these.
        .keep_alive_interval(limits.header_deadline)
        .keep_alive_timeout(limits.header_deadline);
    builder
}
