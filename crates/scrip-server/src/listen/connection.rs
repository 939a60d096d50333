//! The service of one connection, which tracks requests in progress.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, response::Response};
use bytes::Bytes;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    service::Service,
};
use scrip_api::{app::App, pipeline, proxy::StreamedAnswer};
use tokio::time::sleep;

use crate::{
    listen::{
        connection_counts::CloseReason,
        connection_limits::STALLED_AFTER,
        request_log::{LoggedRequest, RequestLog},
        tracked_body::TrackedBody,
    },
    metrics::endpoint,
    node::SealedStart,
    process::clock::ticks,
};

pub(crate) struct ConnectionService {
    pub(crate) app: Arc<App>,
    pub(crate) unsealed_router: Router,
    /// Router while all requests are rejected.
    pub(crate) rejecting_router: Router,
    pub(crate) peer: SocketAddr,
    pub(crate) activity: Arc<Activity>,
    pub(crate) sealed_start: SealedStart,
    pub(crate) request_log: Option<Arc<dyn RequestLog>>,
}

impl ConnectionService {
    /// Whether a request waits until the vault is unsealed for the first time. Probes never wait.
    fn must_wait(&self, path: &str) -> bool {
        let is_probe =
            matches!(path.trim_end_matches('/'), "/healthz" | "/readyz" | endpoint::PATH);
        self.sealed_start == SealedStart::Wait && self.app.key_source.get().is_none() && !is_probe
    }
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let is_rejecting = self.app.rejection_reason().is_some();
        let must_wait = is_rejecting && self.must_wait(request.uri().path());
        let router =
            if is_rejecting && !must_wait { &self.rejecting_router } else { &self.unsealed_router };
        let client = self.app.trusted_proxies.client_address(self.peer.ip(), request.headers());
        let (router, app) = (router.clone(), Arc::clone(&self.app));
        let guard = RequestGuard::new(Arc::clone(&self.activity), Arc::clone(&app));
        let activity = Arc::clone(&self.activity);
        let logged =
            self.request_log.as_ref().map(|it| LoggedRequest::new(Arc::clone(it), &request));
        let request = request.map(|body| TrackedBody::new(body, activity));
        Box::pin(async move {
            if must_wait {
                app.wait_until_unsealed().await;
            }
            let mut response = pipeline::serve_api_request(&app, router, client, request).await;
            if let Some(logged) = logged {
                logged.record(&response);
            }
            let is_streamed = response.extensions_mut().remove::<StreamedAnswer>().is_some();
            // A streamed answer is in progress until its last byte.
            Ok(if is_streamed {
                response.map(|it| Body::new(GuardedBody(it, guard)))
            } else {
                response
            })
        })
    }
}

/// Activity of a connection, shared by its stream, its requests and the connection table.
#[derive(Debug)]
pub(crate) struct Activity {
    requests_started: AtomicU64,
    requests_finished: AtomicU64,
    /// Requests that wait for bytes of their bodies.
    waiting_for_body: AtomicU64,
    /// Time when the connection was accepted, a request last started or ended, or a body last made
    /// progress, in microseconds.
    changed_at: AtomicU64,
    /// Time since when the client reads nothing of a response, in microseconds; zero while it
    /// reads.
    write_blocked_since: AtomicU64,
    /// Time without progress, in microseconds, after which a connection that waits for its client
    /// counts as idle.
    stalled_after: u64,
    close_reason: OnceLock<CloseReason>,
}

/// Microseconds of the monotonic clock.
pub(crate) fn now_micros() -> u64 {
    to_micros(ticks())
}

fn to_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self::with_stall_time(STALLED_AFTER)
    }

    /// A connection that waits for its client counts as idle after `stall_time` without progress.
    pub(crate) fn with_stall_time(stall_time: Duration) -> Self {
        Self {
            requests_started: AtomicU64::new(0),
            requests_finished: AtomicU64::new(0),
            waiting_for_body: AtomicU64::new(0),
            changed_at: AtomicU64::new(now_micros()),
            write_blocked_since: AtomicU64::new(0),
            stalled_after: to_micros(stall_time),
            close_reason: OnceLock::new(),
        }
    }

    /// Completes after the connection had no request for `idle_time`. Hyper has such a timeout for
    /// HTTP/1.1 only.
    pub(crate) async fn wait_until_idle(self: Arc<Self>, idle_time: Duration) {
        loop {
            let started_before = self.requests_started.load(Ordering::Relaxed);
            sleep(idle_time).await;
            let counts = [&self.requests_started, &self.requests_finished]
                .map(|it| it.load(Ordering::Relaxed));
            if counts == [started_before, started_before] {
                return;
            }
        }
    }

    pub(crate) fn start_request(&self) {
        self.requests_started.fetch_add(1, Ordering::Relaxed);
        self.record_progress();
    }

    pub(crate) fn finish_request(&self) {
        self.record_progress();
        self.requests_finished.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_progress(&self) {
        self.changed_at.store(now_micros(), Ordering::Relaxed);
    }

    /// Records that a request waits for bytes of its body, until [`Self::stop_waiting`].
    pub(crate) fn start_waiting(&self) {
        self.waiting_for_body.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stop_waiting(&self) {
        self.waiting_for_body.fetch_sub(1, Ordering::Relaxed);
    }

    /// Time since when the connection is idle. `None` while the server works on a request, or while
    /// the client made progress recently.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let counts = [&self.requests_started, &self.requests_finished, &self.waiting_for_body]
            .map(|it| it.load(Ordering::Relaxed));
        let [started, finished, waiting] = counts;
        let in_progress = started.saturating_sub(finished);
        if in_progress > waiting {
            return None;
        }
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        let blocked_since = self.write_blocked_since.load(Ordering::Relaxed);
        if in_progress == 0 && blocked_since == 0 {
            return Some(changed_at);
        }
        let since = if in_progress == 0 { blocked_since } else { changed_at.max(blocked_since) };
        Some(since).filter(|it| now_micros().saturating_sub(*it) >= self.stalled_after)
    }

    /// Records that the client reads nothing of a response, until [`Self::stop_write_blocked`].
    pub(crate) fn start_write_blocked(&self) {
        let since = &self.write_blocked_since;
        if since.load(Ordering::Relaxed) == 0 {
            since.store(now_micros().max(1), Ordering::Relaxed);
        }
    }

    pub(crate) fn stop_write_blocked(&self) {
        self.write_blocked_since.store(0, Ordering::Relaxed);
    }

    /// Records why the server closes the connection. The first reason counts.
    pub(crate) fn set_close_reason(&self, reason: CloseReason) {
        self.close_reason.get_or_init(|| reason);
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason.get().copied()
    }
}

/// Counts a request as in flight until it is dropped, also when the request is cancelled.
struct RequestGuard(Arc<Activity>, Arc<App>);

impl RequestGuard {
    fn new(activity: Arc<Activity>, app: Arc<App>) -> Self {
        activity.start_request();
        app.metrics.in_flight.increment();
        Self(activity, app)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.finish_request();
        self.1.metrics.in_flight.decrement();
    }
}

/// A body that counts its request as in flight until it ends.
struct GuardedBody(Body, RequestGuard);

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.0).poll_frame(context);
        self.1.0.record_progress();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.0)
    }
}
