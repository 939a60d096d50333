//! Where directory servers of production come with results: a listener of its own, which lets in
//! nobody without a certificate that a connected scheme vouches for, and has but one path.

pub mod client_cert;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use scrip_api::routes::callbacks::verified_results::receive_verified_result;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

pub use crate::directory_servers::results::client_cert::{
    ResultsClientCertVerifier, ResultsPlan, TrustedScheme,
};
use crate::{
    listen::{
        connection::Activity,
        http1_builder,
        limited_stream::{LimitedStream, StreamLimits},
        tls::Reloadable,
    },
    node::Node,
};

/// Directory servers are few; whoever holds connections keeps out only his like.
const CONNECTIONS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A listener that serves until it is closed.
#[derive(Debug)]
pub struct ResultsServer {
    accept_task: JoinHandle<()>,
    drain: watch::Sender<()>,
    deadline: Duration,
}

impl ResultsServer {
    pub fn start(
        node: Arc<Node>,
        listener: TcpListener,
        verifier: Arc<Reloadable<ResultsClientCertVerifier>>,
    ) -> Self {
        let (drain, draining) = watch::channel(());
        let deadline = node.settings.connections.drain_deadline;
        let accepting = tokio::spawn(accept(node, listener, verifier, draining));
        Self { accept_task: accepting, drain, deadline }
    }

    /// Takes no more, and lets what is in flight finish.
    pub async fn close(self) {
        self.accept_task.abort();
        drop(self.accept_task.await);
        self.drain.send_replace(());
        if timeout(self.deadline, self.drain.closed()).await.is_err() {
            tracing::warn!("some results were not taken before the drain deadline");
        }
    }
}

type ResultsDrainSignal = watch::Receiver<()>;

async fn accept(
    node: Arc<Node>,
    listener: TcpListener,
    verifier: Arc<Reloadable<ResultsClientCertVerifier>>,
    draining: ResultsDrainSignal,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept failed for results");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (node, verifier) = (Arc::clone(&node), Arc::clone(&verifier));
        let mut draining = draining.clone();
        tokio::spawn(async move {
            serve_connection(&node, stream, peer, &verifier, &mut draining).await;
            drop((permit, draining));
        });
    }
}

/// One connection, from its first byte to its last.
async fn serve_connection(
    node: &Node,
    stream: TcpStream,
    peer: SocketAddr,
    verifier: &Reloadable<ResultsClientCertVerifier>,
    draining: &mut ResultsDrainSignal,
) {
    let (app, limits) = (&*node.app, &node.settings.connections);
    let deadline = limits.header_deadline;
    let activity = Arc::new(Activity::new());
    let stream = LimitedStream::new(stream, StreamLimits::from_connection_limits(limits), activity);
    let acceptor = TlsAcceptor::from(Arc::clone(&verifier.current().config));
    let shaken = tokio::select! {
        shaken = timeout(deadline, acceptor.accept(stream)) => shaken,
        _ = draining.changed() => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let address = peer.ip();
            return tracing::warn!(%address, %error, "nobody vouches for who came with a result");
        }
        Err(_) => return,
    };
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let shown: Vec<_> = shown.iter().map(|it| it.clone().into_owned()).collect();
    let service = service_fn(async |request: Request<Incoming>| {
        // For each anew: a connection may outlive a certificate, or the roots that vouched for it.
        let schemes = verifier.current().schemes(&shown, app.vault.clock.now());
        let client = app.trusted_proxies.client_address(peer.ip(), request.headers());
        Ok::<_, Infallible>(receive_verified_result(app, &schemes, client, request).await)
    });
    let http1 = http1_builder(deadline, HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(http1.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // Whoever breaks off is no event of ours.
        _ = connection.as_mut() => (),
        _ = draining.changed() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}
