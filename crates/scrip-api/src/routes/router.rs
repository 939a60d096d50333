//! Builds the router from the tables of keyed, callback and keyless routes.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::Response,
    routing::{MethodRouter, any, get, on, post},
};

use crate::{
    app::{App, readiness::NotReadyReason},
    handlers::probes,
    metrics::UnroutedReason,
    pipeline::{self, MatchedRoute},
    problem::Problem,
    proxy::call::CallEntry,
    route::proxy_path::is_proxy_path,
    routes::{ROUTES, callbacks, keyless, missing_features::find_missing_feature},
};

/// Proxied calls. A wildcard matches at least one character.
const PROXY_PATHS: [&str; 3] = ["/proxy", "/proxy/", "/proxy/{*path}"];

/// Builds the router. The pipeline has already removed trailing slashes from other paths. `extend` adds
/// routes that are not part of the API.
pub fn router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let run = |route: MatchedRoute| {
        let app = Arc::clone(app);
        async move |request: Request| pipeline::run_route(&app, &route, request).await
    };
    let mut router = Router::new();
    for route in keyless::KEYLESS_ROUTES {
        router = router.route(route.path, get(run(MatchedRoute::Keyless(route))));
    }
    for route in callbacks::CALLBACKS {
        router = router.route(route.path, post(run(MatchedRoute::Callback(route))));
    }
    for path in PROXY_PATHS {
        router = router.route(path, any(run(MatchedRoute::Proxy(CallEntry::Path))));
    }
    for route in ROUTES {
        router = router.route(route.path, on(route.method, run(MatchedRoute::Keyed(route))));
    }
    extend(router).fallback(reject_unmatched(app)).method_not_allowed_fallback(reject_all(
        app,
        UnroutedReason::MethodNotAllowed,
        Problem::MethodNotAllowed,
    ))
}

/// Serves requests without a socket, the same way a connection does. For tests.
#[derive(Debug, Clone)]
pub struct InProcessServer {
    app: Arc<App>,
    router: Router,
}

impl InProcessServer {
    pub fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), router: router(app, |it| it) }
    }

    pub async fn respond(&self, client: IpAddr, request: Request) -> Response {
        pipeline::serve_api_request(&self.app, self.router.clone(), client, request).await
    }
}

/// The router of a vault that is sealed or may have an outdated policy: `/healthz` works, every
/// other path, known or not, responds with 503.
pub fn rejecting_router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let reject = || {
        let app = Arc::clone(app);
        any(async move |request: Request| {
            let reason = app.rejection_reason().unwrap_or(NotReadyReason::Starting);
            let label = match reason.is_sealed() {
                true => UnroutedReason::Sealed,
                false => UnroutedReason::StoreUnreachable,
            };
            app.metrics.unrouted.increment(label);
            // Proxied calls have errors of their own form.
            let route = match is_proxy_path(request.uri().path()) {
                true => MatchedRoute::Proxy(CallEntry::Path),
                false => MatchedRoute::Unmatched(Arc::new(Problem::NotReady(reason))),
            };
            pipeline::run_route(&app, &route, request).await
        })
    };
    extend(Router::new())
        .route("/healthz", get(probes::healthz))
        .fallback(reject())
        .method_not_allowed_fallback(reject())
}

/// Counts every request that no route matches. The path alone decides between the problems, so the
/// response is the same with and without an API key.
fn reject_unmatched(app: &Arc<App>) -> MethodRouter {
    let app = Arc::clone(app);
    any(async move |request: Request| {
        app.metrics.unrouted.increment(UnroutedReason::NoRoute);
        let feature = find_missing_feature(request.uri().path());
        let problem = feature.map_or(Problem::NoRoute, Problem::MissingFeature);
        let route = MatchedRoute::Unmatched(Arc::new(problem));
        pipeline::run_route(&app, &route, request).await
    })
}

/// Counts every request, and responds to all of them with the same problem.
pub(crate) fn reject_all(app: &Arc<App>, reason: UnroutedReason, problem: Problem) -> MethodRouter {
    let (app, route) = (Arc::clone(app), MatchedRoute::Unmatched(Arc::new(problem)));
    any(async move |request: Request| {
        app.metrics.unrouted.increment(reason);
        pipeline::run_route(&app, &route, request).await
    })
}
