//! Listener for results from directory servers of production schemes. It requires a client
//! certificate signed by the roots of a connected scheme and has a single path.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use scrip_api::routes::callbacks::receive_verified_result;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    connections::{
        http1_builder,
        limited_stream::{LimitedStream, StreamLimits},
        table::Activity,
    },
    directory_servers::client_cert::ResultsTls,
    node::Node,
    tls::Reloadable,
};

/// Small, because there are few directory servers. The limit of client connections is separate.
const CONNECTIONS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A listener that runs until it is closed.
#[derive(Debug)]
pub struct ResultsServer {
    accept_task: JoinHandle<()>,
    drain_sender: watch::Sender<()>,
    drain_timeout: Duration,
}

impl ResultsServer {
    pub fn start(node: Arc<Node>, listener: TcpListener, tls: Arc<Reloadable<ResultsTls>>) -> Self {
        let (drain_sender, drain_signal) = watch::channel(());
        let drain_timeout = node.settings.connection_limits.drain_deadline;
        let accept_task = tokio::spawn(accept_connections(node, listener, tls, drain_signal));
        Self { accept_task, drain_sender, drain_timeout }
    }

    /// Stops accepting connections and waits for requests in flight.
    pub async fn close(self) {
        self.accept_task.abort();
        drop(self.accept_task.await);
        self.drain_sender.send_replace(());
        if timeout(self.drain_timeout, self.drain_sender.closed()).await.is_err() {
            tracing::warn!("some results were not received before the drain deadline");
        }
    }
}

/// Changes when the server is to stop.
type ResultsDrainSignal = watch::Receiver<()>;

async fn accept_connections(
    node: Arc<Node>,
    listener: TcpListener,
    tls: Arc<Reloadable<ResultsTls>>,
    drain_signal: ResultsDrainSignal,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&slots).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept failed on the results listener");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (node, tls) = (Arc::clone(&node), Arc::clone(&tls));
        let mut drain_signal = drain_signal.clone();
        tokio::spawn(async move {
            serve_connection(&node, stream, peer, &tls, &mut drain_signal).await;
            drop((permit, drain_signal));
        });
    }
}

async fn serve_connection(
    node: &Node,
    stream: TcpStream,
    peer: SocketAddr,
    tls: &Reloadable<ResultsTls>,
    drain_signal: &mut ResultsDrainSignal,
) {
    let (app, limits) = (&*node.app, &node.settings.connection_limits);
    let head_timeout = limits.header_deadline;
    let activity = Arc::new(Activity::new());
    let stream = LimitedStream::new(stream, StreamLimits::from_connection_limits(limits), activity);
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.current().config));
    let handshake = tokio::select! {
        handshake = timeout(head_timeout, acceptor.accept(stream)) => handshake,
        _ = drain_signal.changed() => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let address = peer.ip();
            return tracing::warn!(%address, %error, "TLS handshake failed on the results listener: \
                                                     no scheme trusts the client certificate");
        }
        Err(_) => return,
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificates: Vec<_> = certificates.iter().map(|it| it.clone().into_owned()).collect();
    let service = service_fn(async |request: Request<Incoming>| {
        // Verify for every request: a connection can outlive a certificate, and the roots can
        // change.
        let schemes = tls.current().schemes_that_trust(&certificates, app.vault.clock.now());
        let client = app.settings.trusted_proxies.client_address(peer.ip(), request.headers());
        Ok::<_, Infallible>(receive_verified_result(app, &schemes, client, request).await)
    });
    let builder = http1_builder(head_timeout, HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // Errors of the client connection are ignored.
        _ = connection.as_mut() => (),
        _ = drain_signal.changed() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}
