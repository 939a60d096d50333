//! Who may read the metrics: whoever reaches their own listener, or has the key of the operator.

use std::sync::Arc;

use axum::{Router, extract::Request, response::Response, routing::get};
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
};
use scrip_api::{
    middleware::{
        throttle,
        trace::{self, TraceId},
    },
    pipeline::client_address,
    problem::Problem,
};

use crate::{
    metrics::{collect::render, key::MetricsKey},
    node::Node,
};

pub const PATH: &str = "/metrics";
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// For the operator, and so not in the document: on this listener only where a key protects it.
pub(crate) fn with_metrics(router: Router, node: &Arc<Node>) -> Router {
    if node.settings.metrics_key.is_none() {
        return router;
    }
    let node = Arc::clone(node);
    router.route(PATH, get(async move |request: Request| handle(&node, request).await))
}

/// A request for the metrics. Whoever guesses at their key is counted.
async fn handle(node: &Node, request: Request) -> Response {
    let trace = trace::trace_id_of(&request);
    let address = client_address(request.extensions());
    let counted = throttle::count_anonymous(&node.app, address).await;
    // While nobody can count, they are asked for most: only one too many is refused.
    if let Err(throttled @ Problem::Failed(_)) = counted {
        return throttled.response(&trace);
    }
    let response = respond(node, node.settings.metrics_key.as_ref(), request.headers(), &trace);
    if response.status() == StatusCode::UNAUTHORIZED {
        node.app.auth_failures.record(address);
    }
    response
}

/// The page, or 401 where a key is needed and not there.
pub(crate) fn respond(
    node: &Node,
    key: Option<&MetricsKey>,
    headers: &HeaderMap,
    trace: &TraceId,
) -> Response {
    if let Some(Err(problem)) = key.map(|it| it.check(headers)) {
        let mut response = problem.response(trace);
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    let mut response = Response::new(render(node).into());
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}
