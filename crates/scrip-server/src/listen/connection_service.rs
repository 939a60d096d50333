//! The service of one connection, which tracks requests in progress.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::{
    Request,
    body::{Frame, Incoming, SizeHint},
    service::Service,
};
use scrip_api::{app::App, pipeline, proxy::StreamedAnswer};

use crate::{
    connections::table::Activity,
    metrics::endpoint,
    node::SealedStart,
    request_log::{LoggedRequest, RequestLog},
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
        let client =
            self.app.settings.trusted_proxies.client_address(self.peer.ip(), request.headers());
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

/// This many bytes count as progress. A client that sends single bytes now and then makes none.
const PROGRESS_BYTES: usize = 256;

/// A request body that records when the request waits for the client. A request with a body that does
/// not arrive is no work in progress: its connection can be evicted.
pub(crate) struct TrackedBody<B> {
    inner: B,
    activity: Arc<Activity>,
    is_waiting: bool,
    /// Bytes received since the last progress.
    bytes: usize,
}

impl<B> TrackedBody<B> {
    pub(crate) fn new(inner: B, activity: Arc<Activity>) -> Self {
        Self { inner, activity, is_waiting: false, bytes: 0 }
    }

    fn start_waiting(&mut self) {
        if !self.is_waiting {
            self.is_waiting = true;
            self.activity.start_waiting();
        }
    }

    fn stop_waiting(&mut self) {
        if self.is_waiting {
            self.is_waiting = false;
            self.activity.stop_waiting();
        }
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= PROGRESS_BYTES {
            self.bytes = 0;
            self.activity.record_progress();
        }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for TrackedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Pending => self.start_waiting(),
            Poll::Ready(frame) => {
                self.stop_waiting();
                let data = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref());
                self.count_bytes(data.map_or(0, Bytes::len));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for TrackedBody<B> {
    fn drop(&mut self) {
        self.stop_waiting();
    }
}
