//! What answers the requests of one connection, and knows whether there are any.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, response::Response};
use hyper::{Request, body::Incoming, service::Service};
use tokio::time::sleep;

use crate::{
    app::App,
    clock::ticks,
    http::pipeline,
    metrics::{Label, labels},
};

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

labels! {
    /// Why the server ended a connection.
    pub(crate) enum Cut {
        /// Nothing came within the first seconds.
        NoFirstByte "no_first_byte",
        /// The client took nothing of an answer for too long.
        AnswerNotRead "answer_not_read",
        /// The client took an answer below the minimum rate.
        AnswerRate "answer_rate",
    }
}

/// What a connection does: shared by its stream, its requests and the table of connections.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    /// When the connection was accepted, or a request last began or ended, in microseconds.
    changed_at: AtomicU64,
    is_write_blocked: AtomicBool,
    cut: OnceLock<Cut>,
}

/// Microseconds of the clock that only counts.
pub(crate) fn micros() -> u64 {
    u64::try_from(ticks().as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            changed_at: AtomicU64::new(micros()),
            is_write_blocked: AtomicBool::new(false),
            cut: OnceLock::new(),
        }
    }

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

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.changed_at.store(micros(), Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.changed_at.store(micros(), Ordering::Relaxed);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Since when no request is in progress; nothing while one is, its answer included.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let counts = [&self.begun, &self.ended].map(|it| it.load(Ordering::Relaxed));
        let [begun, ended] = counts;
        let is_idle = begun == ended && !self.is_write_blocked.load(Ordering::Relaxed);
        is_idle.then(|| self.changed_at.load(Ordering::Relaxed))
    }

    pub(crate) fn set_write_blocked(&self, is_blocked: bool) {
        self.is_write_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Remembers the first reason.
    pub(crate) fn cut(&self, cut: Cut) {
        self.cut.get_or_init(|| cut);
    }

    pub(crate) fn reason(&self) -> Option<Cut> {
        self.cut.get().copied()
    }
}

/// A request in flight; also one that is broken off ends.
struct Busy(Arc<Activity>, Arc<App>);

impl Busy {
    fn new(activity: Arc<Activity>, app: Arc<App>) -> Self {
        activity.begin();
        app.metrics.in_flight.rise();
        Self(activity, app)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
        self.1.metrics.in_flight.fall();
    }
}
