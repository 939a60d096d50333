//! What answers the requests of one connection, and knows whether there are any.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Router, response::Response};
use hyper::{Request, body::Incoming, service::Service};
use scrip_api::{app::App, pipeline};
use tokio::time::sleep;

use crate::{
    listen::{connection_counts::Cut, connection_limits::STALLED_AFTER, tracked_body::TrackedBody},
    process::clock::ticks,
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
        let activity = Arc::clone(&self.activity);
        let request = request.map(|body| TrackedBody::new(body, activity));
        Box::pin(async move {
            let response = pipeline::answer(&app.metrics, router, client, request).await;
            drop(busy);
            Ok(response)
        })
    }
}

/// What a connection does: shared by its stream, its requests and the table of connections.
#[derive(Debug)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Requests that wait for bytes of their bodies.
    waiting: AtomicU64,
    /// When the connection was accepted, a request last began or ended, or the body of one made
    /// progress, in microseconds.
    changed_at: AtomicU64,
    /// Since when the client takes nothing of an answer, in microseconds; zero while it does.
    write_blocked_since: AtomicU64,
    /// For how many microseconds a client that is waited for may do nothing before it is idle.
    stalled_after: u64,
    cut: OnceLock<Cut>,
}

/// Microseconds of the clock that only counts.
pub(crate) fn micros() -> u64 {
    in_micros(ticks())
}

fn in_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self::stalled_after(STALLED_AFTER)
    }

    /// With this time without progress after which a client that is waited for is idle.
    pub(crate) fn stalled_after(time: Duration) -> Self {
        Self {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            changed_at: AtomicU64::new(micros()),
            write_blocked_since: AtomicU64::new(0),
            stalled_after: in_micros(time),
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
        self.note_progress();
    }

    pub(crate) fn end(&self) {
        self.note_progress();
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_progress(&self) {
        self.changed_at.store(micros(), Ordering::Relaxed);
    }

    /// A request waits for bytes of its body, until [`Self::end_waiting`].
    pub(crate) fn begin_waiting(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_waiting(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Since when the connection is idle. Nothing while the server works on a request, and until a
    /// client that is waited for has sent or taken nothing for long enough.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let counts = [&self.begun, &self.ended, &self.waiting].map(|it| it.load(Ordering::Relaxed));
        let [begun, ended, waiting] = counts;
        let in_progress = begun.saturating_sub(ended);
        if in_progress > waiting {
            return None;
        }
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        let blocked_since = self.write_blocked_since.load(Ordering::Relaxed);
        if in_progress == 0 && blocked_since == 0 {
            return Some(changed_at);
        }
        let since = if in_progress == 0 { blocked_since } else { changed_at.max(blocked_since) };
        Some(since).filter(|it| micros().saturating_sub(*it) >= self.stalled_after)
    }

    /// The client takes nothing of an answer now.
    pub(crate) fn begin_write_blocked(&self) {
        let since = &self.write_blocked_since;
        if since.load(Ordering::Relaxed) == 0 {
            since.store(micros().max(1), Ordering::Relaxed);
        }
    }

    pub(crate) fn end_write_blocked(&self) {
        self.write_blocked_since.store(0, Ordering::Relaxed);
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
