//! The router made of the tables: of routes, of callbacks, and of what needs no key.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::Response,
    routing::{MethodRouter, any, get, on, post},
};

use crate::{
    app::App,
    handlers::probes,
    metrics::UnroutedReason,
    pipeline::{self, MatchedRoute},
    problem::Problem,
    routes::{ROUTES, callbacks, keyless},
};

/// Paths come without a trailing slash: the pipeline has taken it off. `extend` adds routes that are
/// none of the interface.
pub fn router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let run = |row: MatchedRoute| {
        let app = Arc::clone(app);
        async move |request: Request| pipeline::run_route(&app, &row, request).await
    };
    let mut router = Router::new();
    for row in keyless::KEYLESS_ROUTES {
        router = router.route(row.path, get(run(MatchedRoute::Keyless(row))));
    }
    for row in callbacks::CALLBACKS {
        router = router.route(row.path, post(run(MatchedRoute::Callback(row))));
    }
    for row in ROUTES {
        router = router.route(row.path, on(row.method, run(MatchedRoute::Keyed(row))));
    }
    extend(router)
        .fallback(reject_all(app, UnroutedReason::NoRoute, Problem::NoRoute))
        .method_not_allowed_fallback(reject_all(
            app,
            UnroutedReason::MethodNotAllowed,
            Problem::MethodNotAllowed,
        ))
}

/// Answers requests as a connection does, without a socket. For tests.
#[derive(Debug, Clone)]
pub struct InProcessServer {
    app: Arc<App>,
    router: Router,
}

impl InProcessServer {
    #[must_use]
    pub fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), router: router(app, |it| it) }
    }

    pub async fn respond(&self, client: IpAddr, request: Request) -> Response {
        pipeline::serve_api_request(&self.app.metrics, self.router.clone(), client, request).await
    }
}

/// While the vault is sealed, the process answers that it lives; every other path, known or not, is
/// 503.
pub fn sealed_router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let sealed = || reject_all(app, UnroutedReason::Sealed, Problem::Sealed);
    extend(Router::new())
        .route("/healthz", get(probes::healthz))
        .fallback(sealed())
        .method_not_allowed_fallback(sealed())
}

/// Counts whoever comes here, and says the same to all.
pub(crate) fn reject_all(app: &Arc<App>, reason: UnroutedReason, problem: Problem) -> MethodRouter {
    let (app, row) = (Arc::clone(app), MatchedRoute::Unmatched(Arc::new(problem)));
    any(async move |request: Request| {
        app.metrics.unrouted.increment(reason);
        pipeline::run_route(&app, &row, request).await
    })
}
