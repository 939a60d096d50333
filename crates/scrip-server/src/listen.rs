//! The listener: accepts connections up to a total limit and a limit per client network, applies
//! deadlines, and drains at shutdown.

mod connection_service;
pub mod results;

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
use scrip_api::{app::App, routes};
use scrip_core::policy::rate_limit::ClientNetwork;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::server::TlsStream;

use crate::{
    background,
    connections::{
        ConnectionLimits, ConnectionRejection, EvictionReason, http1_builder,
        limited_stream::{LimitedStream, StreamLimits},
        table::{Activity, Admission, ConnectionSlot, ConnectionTable, Eviction},
    },
    listen::connection_service::ConnectionService,
    metrics::endpoint,
    node::{Node, SealedStart},
    request_log::RequestLog,
    tls::{Certificates, H2},
};

/// Buffer of an HTTP/1.1 connection. The head of a request must fit into it; a body is read in
/// chunks of this size.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;

/// Concurrent requests per connection, and buffered bytes of their bodies. With the limit of
/// connections, this bounds memory.
const STREAMS_MAX: u32 = 100;
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;

/// Maximum time until the calls that are stopped at the drain deadline have ended.
const CALL_WRITE_TIME_MAX: Duration = Duration::from_secs(5);

/// Time for an evicted idle connection to close gracefully.
const EVICTION_GRACE: Duration = Duration::from_millis(100);

/// A listening socket with its certificates. Without certificates it serves plain HTTP.
#[derive(Debug)]
pub struct ListenSocket {
    pub tcp: TcpListener,
    pub tls: Option<Arc<Certificates>>,
}

/// Serves plain HTTP until `stop` completes, then waits for requests in flight up to the drain
/// deadline.
pub async fn serve_plain(node: Arc<Node>, listener: TcpListener, stop: impl Future<Output = ()>) {
    serve_on(node, ListenSocket { tcp: listener, tls: None }, |it| it, stop).await;
}

/// As [`serve_plain`], with or without certificates. `extend` adds routes that are not part of the
/// API.
pub async fn serve_on(
    node: Arc<Node>,
    socket: ListenSocket,
    extend: impl FnOnce(Router) -> Router,
    stop: impl Future<Output = ()>,
) {
    background::start(&node);
    let ListenSocket { tcp, tls } = socket;
    let (app, limits) = (&node.app, &node.settings.connection_limits);
    let server = Arc::new(ConnectionServer::new(&node, tls, extend));
    let (drain_sender, drain_signal) = watch::channel(());
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
        // While every connection has a request in progress, new connections wait in the backlog of
        // the kernel.
        let admitted = tokio::select! {
            () = &mut stop => break,
            admitted = admit(&node, &table, peer) => admitted,
        };
        let Some(connection) = admitted else { continue };
        let (server, drain_signal) = (Arc::clone(&server), drain_signal.clone());
        tokio::spawn(async move {
            server.serve_connection(stream, peer, &connection, drain_signal).await;
            drop(connection);
        });
    }
    drop((tcp, drain_signal));
    drain_sender.send_replace(());
    // No delivery starts from now on. Those in progress use the time of the requests.
    app.tasks.deliveries.stop();
    let drain_end = Instant::now() + limits.drain_deadline;
    if timeout(limits.drain_deadline, drain_sender.closed()).await.is_err() {
        tracing::warn!("some requests did not finish before the drain deadline");
    }
    if let Err(error) = app.vault.guess_ledger.flush(&*app.vault.store, app.vault.clock.now()).await
    {
        tracing::warn!(
            cause = %error,
            "writing the last counts of the guessing budget failed"
        );
    }
    // Without its outcome, a call that was answered would count as one that may have been sent.
    let rest = drain_end.saturating_duration_since(Instant::now());
    if !app.tasks.calls.wait_until_idle(rest).await {
        tracing::warn!("some proxied calls did not finish before the drain deadline");
        app.tasks.calls.stop();
        if !app.tasks.calls.wait_until_idle(CALL_WRITE_TIME_MAX).await {
            tracing::warn!("the outcome of some proxied calls is unknown");
        }
    }
    let lost_outcomes = app.vault.outcome_queue.flush(&*app.vault.store).await;
    if lost_outcomes > 0 {
        tracing::warn!(lost_outcomes, "writing the last outcomes of proxied calls failed");
    }
    let rest = drain_end.saturating_duration_since(Instant::now());
    if !app.tasks.deliveries.wait_until_idle(rest).await {
        tracing::warn!(
            "some deliveries to webhooks did not finish before the drain deadline; they are \
             repeated within a minute"
        );
    }
    // A sent authentication cannot be recalled: without its outcome the session would be lost.
    if !app.tasks.authentications.wait_until_idle(limits.authentication_deadline).await {
        tracing::warn!("the outcome of some authentications is unknown");
    }
}

/// Creates the table with the number of slots that the settings and the limit of open files allow.
fn connection_table(node: &Node) -> Arc<ConnectionTable> {
    let (connections, limits) = (node.connections_max(), &node.settings.connection_limits);
    if connections < limits.connections_max {
        tracing::warn!(
            connections,
            "server.connections_max is reduced to the limit of open files; to serve more \
             connections raise that limit (LimitNOFILE of systemd, or ulimit -n)"
        );
    }
    ConnectionTable::new(connections, limits.network_connections(connections))
}

/// Handles a failed accept. Without free descriptors no client can connect until a connection ends,
/// so the idlest connection is closed. Only the first failure is a warning, because clients can
/// cause many of them.
async fn recover_from_accept(
    node: &Node,
    table: &ConnectionTable,
    error: &io::Error,
    is_reported: bool,
) {
    if is_reported {
        tracing::debug!(%error, "accept failed");
    } else {
        tracing::warn!(%error, "accept failed; further failures are logged at debug level only");
    }
    let code = error.raw_os_error().map(Errno::from_raw);
    if !matches!(code, Some(Errno::EMFILE | Errno::ENFILE)) {
        return sleep(Duration::from_millis(50)).await;
    }
    if table.evict_idlest().await {
        node.connection_counts.evicted.increment(EvictionReason::Descriptors);
    }
}

/// A connection with its slot and its activity. On drop, the connection is counted as closed.
struct AdmittedConnection {
    slot: ConnectionSlot,
    activity: Arc<Activity>,
    node: Arc<Node>,
}

/// Reserves a slot for a new connection. Returns `None` if all slots of its network are in use.
async fn admit(
    node: &Arc<Node>,
    table: &Arc<ConnectionTable>,
    peer: SocketAddr,
) -> Option<AdmittedConnection> {
    // A proxy forwards many clients.
    let is_proxy = node.app.settings.trusted_proxies.contains(peer.ip().to_canonical());
    let network = (!is_proxy).then(|| ClientNetwork::from_address(peer.ip()));
    let activity =
        Arc::new(Activity::with_stall_time(node.settings.connection_limits.evictable_after));
    let counts = &node.connection_counts;
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
        let counts = &self.node.connection_counts;
        counts.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(reason) = self.activity.close_reason() {
            counts.closed.increment(reason);
        }
    }
}

/// Changes when the server is to stop.
type DrainSignal = watch::Receiver<()>;

/// State shared by all connections.
struct ConnectionServer {
    app: Arc<App>,
    limits: ConnectionLimits,
    tls: Option<Arc<Certificates>>,
    unsealed_router: Router,
    rejecting_router: Router,
    http1_builder: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    sealed_start: SealedStart,
    request_log: Option<Arc<dyn RequestLog>>,
}

impl ConnectionServer {
    fn new(
        node: &Arc<Node>,
        tls: Option<Arc<Certificates>>,
        extend: impl FnOnce(Router) -> Router,
    ) -> Self {
        let (app, limits) = (Arc::clone(&node.app), node.settings.connection_limits.clone());
        let http1_builder = http1_builder(limits.header_deadline, BUFFER_BYTES_MAX);
        let http2 = http2_builder(&limits);
        let unsealed_router = routes::router(&app, |it| extend(endpoint::with_metrics(it, node)));
        let rejecting_router =
            routes::rejecting_router(&app, |it| endpoint::with_metrics(it, node));
        let sealed_start = node.settings.sealed_start;
        let request_log = node.settings.request_log.clone();
        Self {
            app,
            limits,
            tls,
            unsealed_router,
            rejecting_router,
            http1_builder,
            http2,
            sealed_start,
            request_log,
        }
    }

    /// Serves one connection. A client that disconnects is not an error.
    async fn serve_connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        admitted: &AdmittedConnection,
        drain_signal: DrainSignal,
    ) {
        // Responses are written completely, so there is no reason to delay packets.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "setting TCP_NODELAY failed");
        }
        let service = ConnectionService {
            app: Arc::clone(&self.app),
            unsealed_router: self.unsealed_router.clone(),
            rejecting_router: self.rejecting_router.clone(),
            peer,
            activity: Arc::clone(&admitted.activity),
            sealed_start: self.sealed_start,
            request_log: self.request_log.clone(),
        };
        let limits = StreamLimits::from_connection_limits(&self.limits);
        let stream = LimitedStream::new(stream, limits, Arc::clone(&admitted.activity));
        let Some(tls) = &self.tls else {
            let connection = self.http1_builder.serve_connection(TokioIo::new(stream), service);
            return self.run_connection(connection, admitted, drain_signal, pending()).await;
        };
        let tls_stream = self.accept_tls(tls, stream, admitted, drain_signal.clone()).await;
        let Some(stream) = tls_stream else { return };
        if stream.get_ref().1.alpn_protocol() == Some(H2) {
            let idle = Arc::clone(&admitted.activity).wait_until_idle(self.limits.header_deadline);
            let connection = self.http2.serve_connection(TokioIo::new(stream), service);
            self.run_connection(connection, admitted, drain_signal, idle).await;
        } else {
            let connection = self.http1_builder.serve_connection(TokioIo::new(stream), service);
            self.run_connection(connection, admitted, drain_signal, pending()).await;
        }
    }

    /// Performs the TLS handshake. Drops a client that is silent or slow, and a client that has
    /// sent nothing when the server stops.
    async fn accept_tls(
        &self,
        tls: &Certificates,
        stream: LimitedStream<TcpStream>,
        admitted: &AdmittedConnection,
        mut drain_signal: DrainSignal,
    ) -> Option<TlsStream<LimitedStream<TcpStream>>> {
        let handshake = timeout(self.limits.header_deadline, tls.acceptor().accept(stream));
        tokio::select! {
            accepted = handshake => accepted.ok()?.ok(),
            () = admitted.slot.evicted.notified() => None,
            _ = drain_signal.changed() => None,
        }
    }

    /// Runs a connection until it ends, the server stops, it was idle for too long, or a new
    /// connection evicts it. In the last three cases requests in flight can finish.
    async fn run_connection(
        &self,
        connection: impl GracefulConnection,
        admitted: &AdmittedConnection,
        mut drain_signal: DrainSignal,
        idle: impl Future<Output = ()>,
    ) {
        let mut connection = pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => (),
            _ = drain_signal.changed() => {
                // The server waits for all connections together, up to its deadline.
                connection.as_mut().graceful_shutdown();
                drop(connection.await);
            }
            () = idle => {
                connection.as_mut().graceful_shutdown();
                drop(timeout(self.limits.drain_deadline, connection).await);
            }
            () = admitted.slot.evicted.notified() => {
                // A request may have started since the eviction was decided.
                let is_idle = admitted.activity.idle_since().is_some();
                let drain_time = if is_idle { EVICTION_GRACE } else { self.limits.drain_deadline };
                connection.as_mut().graceful_shutdown();
                drop(timeout(drain_time, connection).await);
            }
        }
    }
}

/// Creates a builder of HTTP/2 connections. HTTP/2 is offered over TLS only, where ALPN selects the
/// protocol. On plain connections, detecting HTTP/2 would require waiting for the first bytes of a
/// client without a deadline.
fn http2_builder(limits: &ConnectionLimits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        // A peer that disappeared does not respond to these pings.
        .keep_alive_interval(limits.header_deadline)
        .keep_alive_timeout(limits.header_deadline);
    builder
}
