//! The listener: accepts up to a cap, gives every connection deadlines, and drains when told to.

use std::{convert::Infallible, future::Future, net::SocketAddr, pin::Pin, sync::Arc};

use axum::{Router, response::Response};
use hyper::{Request, body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
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

const HTTP2_STREAMS_MAX: u32 = 128;
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Serves until `stop` is ready, then lets what is in flight finish within its deadline.
pub async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>) {
    background::start(app.vault.clone());
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
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
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

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_deadline)
        .max_buf_size(HEADER_BYTES_MAX * 4);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.header_deadline)
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEADER_BYTES_MAX).unwrap_or(u32::MAX));
    builder
}
