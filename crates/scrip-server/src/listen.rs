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
use scrip_core::policy::rate_limit::Network;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::server::TlsStream;

use crate::{
    background,
    listen::{
        connection::{Activity, Connection},
        connection_counts::{ConnectionEvicted, ConnectionRefused},
        connection_limits::ConnectionLimits,
        connection_table::{Admission, ConnectionTable, Eviction, Slot},
        limited_stream::{LimitedStream, StreamLimits},
        tls::{Certificates, H2},
    },
    metrics::access,
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
pub struct Listening {
    pub tcp: TcpListener,
    pub tls: Option<Arc<Certificates>>,
}

/// Serves in clear until `stop` is ready, then lets what is in flight finish within its deadline.
pub async fn serve(node: Arc<Node>, listener: TcpListener, stop: impl Future<Output = ()>) {
    serve_on(node, Listening { tcp: listener, tls: None }, |it| it, stop).await;
}

/// The same, with certificates or without. `extend` adds routes that are none of the interface.
pub async fn serve_on(
    node: Arc<Node>,
    listening: Listening,
    extend: impl FnOnce(Router) -> Router,
    stop: impl Future<Output = ()>,
) {
    background::start(&node);
    let Listening { tcp, tls } = listening;
    let (app, limits) = (&node.app, &node.settings.connections);
    let front = Arc::new(Front::new(&node, tls, extend));
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
            front.connect(stream, peer, &place, draining).await;
            drop(place);
        });
    }
    drop((tcp, draining));
    drain.send_replace(());
    if timeout(limits.drain_deadline, drain.closed()).await.is_err() {
        tracing::warn!("some requests did not finish before the drain deadline");
    }
    if let Err(error) = app.vault.guesses.flush(&*app.vault.store, app.vault.clock.now()).await {
        tracing::warn!(?error, "the last counts of the guessing budget were not written");
    }
    // What was sent cannot be taken back: without its outcome the session would be lost.
    if !app.authenticating.ended(limits.authentication_deadline).await {
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
        node.connections.evicted.one(ConnectionEvicted::Descriptors);
    }
}

/// A connection's slot, and what it does.
struct Place {
    slot: Slot,
    activity: Arc<Activity>,
    node: Arc<Node>,
}

/// A slot for a new connection; none when its network has all of its slots in use.
async fn admit(node: &Arc<Node>, table: &Arc<ConnectionTable>, peer: SocketAddr) -> Option<Place> {
    // A proxy speaks for many clients.
    let is_proxy = node.app.proxies.has(peer.ip().to_canonical());
    let network = (!is_proxy).then(|| Network::of(peer.ip()));
    let activity = Arc::new(Activity::stalled_after(node.settings.connections.evictable_after));
    let counts = &node.connections;
    let (slot, eviction) = match table.admit(network, &activity).await {
        Admission::Admitted(slot, eviction) => (slot, eviction),
        Admission::NetworkFull => {
            counts.refused.one(ConnectionRefused::NetworkFull);
            return None;
        }
    };
    match eviction {
        Eviction::None => (),
        Eviction::OfNetwork => counts.evicted.one(ConnectionEvicted::NetworkFull),
        Eviction::OfAll => counts.evicted.one(ConnectionEvicted::Full),
    }
    counts.open.fetch_add(1, Ordering::Relaxed);
    counts.accepted.one();
    Some(Place { slot, activity, node: Arc::clone(node) })
}

impl Drop for Place {
    fn drop(&mut self) {
        let counts = &self.node.connections;
        counts.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(cut) = self.activity.reason() {
            counts.cut.one(cut);
        }
    }
}

/// Ready when the server is to stop.
type Draining = watch::Receiver<()>;

/// What all connections have in common.
struct Front {
    app: Arc<App>,
    limits: ConnectionLimits,
    tls: Option<Arc<Certificates>>,
    open: Router,
    sealed: Router,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Front {
    fn new(
        node: &Arc<Node>,
        tls: Option<Arc<Certificates>>,
        extend: impl FnOnce(Router) -> Router,
    ) -> Self {
        let (app, limits) = (Arc::clone(&node.app), node.settings.connections.clone());
        let http1 = http1(limits.header_deadline, BUFFER_BYTES_MAX);
        let http2 = http2(&limits);
        let open = router::router(&app, |it| extend(access::with_metrics(it, node)));
        let sealed = router::sealed_router(&app, |it| access::with_metrics(it, node));
        Self { app, limits, tls, open, sealed, http1, http2 }
    }

    /// One connection, from its first byte to its last. A client that breaks off is no event of
    /// ours.
    async fn connect(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        place: &Place,
        draining: Draining,
    ) {
        // Answers are written whole, so there is nothing to wait for.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "nodelay");
        }
        let service = Connection {
            app: Arc::clone(&self.app),
            open: self.open.clone(),
            sealed: self.sealed.clone(),
            peer,
            activity: Arc::clone(&place.activity),
        };
        let limits = StreamLimits::of(&self.limits);
        let stream = LimitedStream::new(stream, limits, Arc::clone(&place.activity));
        let Some(tls) = &self.tls else {
            let connection = self.http1.serve_connection(TokioIo::new(stream), service);
            return self.drive(connection, place, draining, pending()).await;
        };
        let shaken = self.shake_hands(tls, stream, place, draining.clone()).await;
        let Some(stream) = shaken else { return };
        if stream.get_ref().1.alpn_protocol() == Some(H2) {
            let idle = Arc::clone(&place.activity).idle(self.limits.header_deadline);
            let connection = self.http2.serve_connection(TokioIo::new(stream), service);
            self.drive(connection, place, draining, idle).await;
        } else {
            let connection = self.http1.serve_connection(TokioIo::new(stream), service);
            self.drive(connection, place, draining, pending()).await;
        }
    }

    /// A client that is silent or slow is cut off, and so is one that has not said anything yet
    /// when the server stops.
    async fn shake_hands(
        &self,
        tls: &Certificates,
        stream: LimitedStream<TcpStream>,
        place: &Place,
        mut draining: Draining,
    ) -> Option<TlsStream<LimitedStream<TcpStream>>> {
        let shaking = timeout(self.limits.header_deadline, tls.acceptor().accept(stream));
        tokio::select! {
            shaken = shaking => shaken.ok()?.ok(),
            () = place.slot.evicted.notified() => None,
            _ = draining.changed() => None,
        }
    }

    /// Lets a connection run until it ends, until the server stops, until it was idle for too long,
    /// or until another one takes its slot; the last three let requests in flight finish.
    async fn drive(
        &self,
        connection: impl GracefulConnection,
        place: &Place,
        mut draining: Draining,
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
            () = place.slot.evicted.notified() => {
                // A request may have begun since the choice was made.
                let is_idle = place.activity.idle_since().is_some();
                let most = if is_idle { EVICTION_GRACE } else { self.limits.drain_deadline };
                connection.as_mut().graceful_shutdown();
                drop(timeout(most, connection).await);
            }
        }
    }
}

/// The deadline is for the head of a request, which must fit into the buffer.
pub(crate) fn http1(header_deadline: Duration, buffer_bytes_max: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_deadline)
        .max_buf_size(buffer_bytes_max);
    builder
}

/// Under TLS only. Telling HTTP/2 from HTTP/1.1 in clear means to wait for a client's first bytes
/// without a deadline; over TLS the handshake tells.
fn http2(limits: &ConnectionLimits) -> http2::Builder<TokioExecutor> {
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
