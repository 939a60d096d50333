//! The route table, and the router made of it.

pub(crate) mod authenticate;
pub(crate) mod cors;
pub(crate) mod idempotency;
pub(crate) mod pipeline;
pub(crate) mod probes;
pub(crate) mod problem;
pub(crate) mod tokens;
pub(crate) mod trace;

use std::{future::Future, pin::Pin, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::Response,
    routing::{MethodFilter, get, on},
};
use scrip_core::{audit::Operation, permission::Permission};

use crate::{
    app::App,
    http::{pipeline::Asked, problem::Problem},
};

pub(crate) type Handling = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// One row: everything that is decided about a route, in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) operation: Operation,
    pub(crate) method: MethodFilter,
    pub(crate) path: &'static str,
    pub(crate) permission: Permission,
    pub(crate) body: BodyKind,
    pub(crate) handler: fn(Asked) -> Handling,
}

/// What a route reads. Routes that read a body honour an idempotency key; the others ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    None,
    Json,
    MergePatch,
}

use BodyKind::{Json, MergePatch, None};

#[rustfmt::skip]
pub(crate) const ROUTES: &[Route] = &[
    route(Operation::CreateToken, MethodFilter::POST, "/tokens", Permission::TokenCreate, (Json, tokens::create)),
    route(Operation::GetToken, MethodFilter::GET, "/tokens/{id}", Permission::TokenRead, (None, tokens::get)),
    route(Operation::UpdateToken, MethodFilter::PATCH, "/tokens/{id}", Permission::TokenUpdate, (MergePatch, tokens::update)),
    route(Operation::DeleteToken, MethodFilter::DELETE, "/tokens/{id}", Permission::TokenDelete, (None, tokens::delete)),
];

const fn route(
    operation: Operation,
    method: MethodFilter,
    path: &'static str,
    permission: Permission,
    (body, handler): (BodyKind, fn(Asked) -> Handling),
) -> Route {
    Route { operation, method, path, permission, body, handler }
}

/// Paths come without a trailing slash: the pipeline has taken it off.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let ready = Arc::clone(app);
    let mut router = Router::new().route("/healthz", get(probes::healthz)).route(
        "/readyz",
        get(move |request: Request| {
            let app = Arc::clone(&ready);
            let trace = trace::of(&request);
            async move { probes::readyz(&app, &trace).await }
        }),
    );
    for row in ROUTES {
        let app = Arc::clone(app);
        let handler = move |request: Request| {
            let app = Arc::clone(&app);
            async move { pipeline::run(&app, row, request).await }
        };
        router = router.route(row.path, on(row.method, handler));
    }
    router
        .fallback(async |request: Request| Problem::NoRoute.response(&trace::of(&request)))
        .method_not_allowed_fallback(async |request: Request| {
            Problem::MethodNotAllowed.response(&trace::of(&request))
        })
}
