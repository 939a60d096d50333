//! The service of one connection, which tracks requests in progress.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{Router, body::Body, response::Response};
use bytes::Bytes;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    service::Service,
};
use scrip_api::{app::App, pipeline, proxy::StreamedAnswer};

use crate::{
    connections::activity::Activity,
    listen::tracked_body::TrackedBody,
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
