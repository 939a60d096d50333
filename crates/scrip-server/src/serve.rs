//! The listener: accepts up to a cap, gives every connection deadlines, and drains when told to.

use std::{convert::Infallible, future::Future, net::SocketAddr, pin::Pin, sync::Arc};

use axum::{Router, response::Response};
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    app::{App, Limits},
    background, http,
};

/// The head of a request must fit; a body is read through it in pieces.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Serves until `stop` is ready, then lets what is in flight finish within its deadline.
pub async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>) {
    background::start(&app);
    let router = http::router(&app);
    let builder = builder(&app.limits);
    let connections = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(app.limits.connections_max));
    let mut stop = std::pin::pin!(stop);
    loop {
        // Room first: past the cap a connection waits in the kernel's queue, not in our memory.
        let place = tokio::select! {
            () = &mut stop => break,
            place = Arc::clone(&room).acquire_owned() => place,
        };
        let (stream, peer) = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely; a moment lets some be closed.
                    tracing::warn!(%error, "accept failed");
                    sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        // Answers are written whole, so there is nothing to wait for.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "nodelay");
        }
        let service = Connection { router: router.clone(), peer };
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = connections.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is no event of ours.
            drop(connection.await);
            drop(place);
        });
    }
    drop(listener);
    if timeout(app.limits.drain_deadline, connections.shutdown()).await.is_err() {
        tracing::warn!("some requests did not finish before the drain deadline");
    }
}

/// What answers the requests of one connection.
struct Connection {
    router: Router,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for Connection {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (router, peer) = (self.router.clone(), self.peer);
        Box::pin(async move { Ok(http::pipeline::answer(router, peer, request).await) })
    }
}

/// HTTP/1.1 only. Telling HTTP/2 from it in clear means to wait for a client's first bytes without
/// a deadline; over TLS the handshake tells.
fn builder(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_deadline)
        .max_buf_size(BUFFER_BYTES_MAX);
    builder
}
