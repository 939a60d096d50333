//! What answers the requests of one connection, and knows whether there are any.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, response::Response};
use hyper::{Request, body::Incoming, service::Service};
use tokio::time::sleep;

use crate::{app::App, http::pipeline};

pub(crate) struct Connection {
    pub(crate) app: Arc<App>,
    pub(crate) open: Router,
    /// Answers while the vault is sealed.
    pub(crate) sealed: Router,
    pub(crate) peer: SocketAddr,
    pub(crate) activity: Arc<Activity>,
}

impl Service<Request<Incoming>> for Connection {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let router = if self.app.is_sealed() { &self.sealed } else { &self.open };
        let client = self.app.proxies.client(self.peer.ip(), request.headers());
        let (router, app) = (router.clone(), Arc::clone(&self.app));
        let busy = Busy::new(Arc::clone(&self.activity), Arc::clone(&app));
        Box::pin(async move {
            let response = pipeline::answer(&app.metrics, router, client, request).await;
            drop(busy);
            Ok(response)
        })
    }
}

/// How many requests a connection has begun and ended.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Activity {
    /// Ready when nothing was asked for that long. The library has a deadline for HTTP/1.1 only.
    pub(crate) async fn idle(self: Arc<Self>, deadline: Duration) {
        loop {
            let before = self.begun.load(Ordering::Relaxed);
            sleep(deadline).await;
            let counts = [&self.begun, &self.ended].map(|it| it.load(Ordering::Relaxed));
            if counts == [before, before] {
                return;
            }
        }
    }
}

/// A request in flight; also one that is broken off ends.
struct Busy(Arc<Activity>, Arc<App>);

impl Busy {
    fn new(activity: Arc<Activity>, app: Arc<App>) -> Self {
        activity.begun.fetch_add(1, Ordering::Relaxed);
        app.metrics.in_flight.rise();
        Self(activity, app)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
        self.1.metrics.in_flight.fall();
    }
}
