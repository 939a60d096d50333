//! Access to /metrics: unrestricted on the separate listener unless a key is set, with the key on
//! the client listener.

use std::sync::Arc;

use axum::{Router, extract::Request, response::Response, routing::get};
use hyper::{
    HeaderMap, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
};
use scrip_api::{
    middleware::admission,
    pipeline::client_address,
    problem::Problem,
    trace_id::{self, TraceId},
};

use crate::{
    metrics::collect::render,
    node::{Node, metrics_key::MetricsKey},
};

pub const PATH: &str = "/metrics";
const PROMETHEUS_TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Adds /metrics to the client listener if a key is set. The route is for the operator and not part
/// of the OpenAPI document.
pub(crate) fn with_metrics(router: Router, node: &Arc<Node>) -> Router {
    if node.settings.metrics_key.is_none() {
        return router;
    }
    let node = Arc::clone(node);
    router.route(PATH, get(async move |request: Request| handle(&node, request).await))
}

/// Handles a request for metrics. Attempts with a wrong key are counted by the rate limiter.
async fn handle(node: &Node, request: Request) -> Response {
    let trace = trace_id::trace_id_of(&request);
    let address = client_address(request.extensions());
    let result = admission::count_anonymous(&node.app, address).await;
    // During an outage of the counters metrics are needed most: reject only if the limit is
    // exceeded.
    if let Err(rejection @ Problem::Failed(_)) = result {
        return rejection.response(&trace);
    }
    let key = node.settings.metrics_key.as_ref();
    let response = respond(key, request.headers(), &trace, || render(node).into());
    if response.status() == StatusCode::UNAUTHORIZED {
        node.app.auth_failures.record(address);
    }
    response
}

/// Responds with the page, or with 401 if a required key is missing or wrong.
pub(crate) fn respond(
    key: Option<&MetricsKey>,
    headers: &HeaderMap,
    trace: &TraceId,
    page: impl FnOnce() -> Bytes,
) -> Response {
    if let Some(Err(problem)) = key.map(|it| it.check(headers)) {
        let mut response = problem.response(trace);
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    let mut response = Response::new(page().into());
    response.headers_mut().insert(CONTENT_TYPE, PROMETHEUS_TEXT);
    response
}
