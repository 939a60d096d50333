//! Where directory servers of production come with results: a listener of its own, which lets in
//! nobody without a certificate that a connected scheme vouches for, and has but one path.

pub mod vouch;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hyper::{
    Method, Request,
    body::Incoming,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use scrip_core::{
    audit::Operation,
    caller::Origin,
    id::SessionId,
    operations::receive_result::{Door, Posted, receive_result},
    rate_limit::Network,
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

pub use crate::directory_servers::results::vouch::{Doorkeeper, ResultsPlan, TrustedScheme};
use scrip_api::{
    app::App,
    middleware::{body::read_body, throttle, trace::TraceId, unread_body},
    problem::Problem,
};

use crate::{
    directory_servers::client::JSON,
    listen::{
        connection::Activity,
        limited_stream::{LimitedStream, StreamLimits},
        tls::Watched,
    },
    node::Node,
    process::clock::ticks,
};

/// Directory servers are few; whoever holds connections keeps out only his like.
const CONNECTIONS_MAX: usize = 256;
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A listener that serves until it is closed.
#[derive(Debug)]
pub struct ResultsServer {
    accepting: JoinHandle<()>,
    drain: watch::Sender<()>,
    deadline: Duration,
}

impl ResultsServer {
    pub fn start(
        node: Arc<Node>,
        listener: TcpListener,
        doorkeeper: Arc<Watched<Doorkeeper>>,
    ) -> Self {
        let (drain, draining) = watch::channel(());
        let deadline = node.settings.connections.drain_deadline;
        let accepting = tokio::spawn(accept(node, listener, doorkeeper, draining));
        Self { accepting, drain, deadline }
    }

    /// Takes no more, and lets what is in flight finish.
    pub async fn close(self) {
        self.accepting.abort();
        drop(self.accepting.await);
        self.drain.send_replace(());
        if timeout(self.deadline, self.drain.closed()).await.is_err() {
            tracing::warn!("some results were not taken before the drain deadline");
        }
    }
}

type Draining = watch::Receiver<()>;

async fn accept(
    node: Arc<Node>,
    listener: TcpListener,
    doorkeeper: Arc<Watched<Doorkeeper>>,
    draining: Draining,
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
        let (node, doorkeeper) = (Arc::clone(&node), Arc::clone(&doorkeeper));
        let mut draining = draining.clone();
        tokio::spawn(async move {
            connect(&node, (stream, peer), &doorkeeper, &mut draining).await;
            drop((permit, draining));
        });
    }
}

/// One connection, from its first byte to its last.
async fn connect(
    node: &Node,
    (stream, peer): (TcpStream, SocketAddr),
    doorkeeper: &Watched<Doorkeeper>,
    draining: &mut Draining,
) {
    let (app, limits) = (&*node.app, &node.settings.connections);
    let deadline = limits.header_deadline;
    let activity = Arc::new(Activity::new());
    let stream = LimitedStream::new(stream, StreamLimits::of(limits), activity);
    let acceptor = TlsAcceptor::from(Arc::clone(&doorkeeper.current().config));
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
        let schemes = doorkeeper.current().schemes(&shown, app.vault.clock.now());
        Ok::<_, Infallible>(answer(app, &schemes, peer, request).await)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(deadline).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // Whoever breaks off is no event of ours.
        _ = connection.as_mut() => (),
        _ = draining.changed() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

async fn answer(
    app: &App,
    schemes: &[Scheme],
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response {
    let begun = ticks();
    let trace = TraceId::of_headers(request.headers());
    let address = app.proxies.client(peer.ip(), request.headers());
    let origin = Origin { trace: Arc::clone(&trace.0), address };
    let (request, unread) = unread_body::split(request);
    let mut response = match receive(app, schemes, &origin, request).await {
        Ok(message) => {
            let mut response = Response::new(Body::from(Bytes::from_owner(message)));
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        Err(problem) => problem.response(&trace),
    };
    unread.settle(&mut response).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let took = ticks().saturating_sub(begun);
    app.metrics.answered(Operation::ReceiveResult, response.status().as_u16(), took);
    response
}

async fn receive(
    app: &App,
    schemes: &[Scheme],
    origin: &Origin,
    request: Request<Body>,
) -> Result<Zeroizing<Vec<u8>>, Problem> {
    // Whoever somebody vouches for is not counted: a result that is turned away is a payment lost.
    if schemes.is_empty() {
        throttle::stranger(app, origin.address).await?;
        return Err(Problem::Unauthorized);
    }
    let (id, secret) = place(request.uri().path()).ok_or(Problem::NoRoute)?;
    if request.method() != Method::POST {
        return Err(Problem::MethodNotAllowed);
    }
    let secret = Zeroizing::new(secret.to_owned());
    // A certificate is as good as a key.
    let mut reservation = app.body_memory.begin(Network::of(origin.address));
    let mut body = request.into_body();
    let message = read_body(app, &mut body, MESSAGE_BYTES_MAX, &mut reservation).await?;
    let directory = app.directory.load_full().filter(|_| !app.is_sealed());
    let directory = directory.ok_or(Problem::Sealed)?;
    let door = Door::Verified(schemes.to_vec());
    let posted = Posted { id, secret: &secret, message: &message, door };
    Ok(receive_result(&app.vault, &directory, origin, posted).await?)
}

/// The session and the secret of `/3ds/sessions/{id}/results/{secret}`.
fn place(path: &str) -> Option<(SessionId, &str)> {
    let (id, secret) = path.strip_prefix("/3ds/sessions/")?.split_once("/results/")?;
    let secret = Some(secret).filter(|it| !it.is_empty() && !it.contains('/'));
    SessionId::parse(id).zip(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_path() {
        let id = "6fa459ea-ee8a-4ca4-894e-db77e160355e";
        let good = format!("/3ds/sessions/{id}/results/abc");
        let (found, secret) = place(&good).unwrap();
        assert_eq!((found.to_string().as_str(), secret), (id, "abc"));
        let bad = [
            format!("/3ds/sessions/{id}/results/"),
            format!("/3ds/sessions/{id}/results"),
            format!("/3ds/sessions/{id}/results/abc/d"),
            "/3ds/sessions/x/results/abc".to_owned(),
            format!("/3ds/sessions/{id}"),
            "/healthz".to_owned(),
            "/".to_owned(),
        ];
        for path in bad {
            assert!(place(&path).is_none(), "{path}");
        }
    }
}
