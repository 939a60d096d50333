//! The public key with which receivers verify deliveries to webhooks.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use scrip_core::Error;

use crate::{
    app::App,
    problem::{Problem, not_ready::name_storage_cause},
    route::PublicCacheControl,
    trace_id::TraceId,
};

/// The key pair stays the same while the vault exists. An hour is short enough for a vault that was
/// set up again.
const CACHE_TIME: PublicCacheControl = PublicCacheControl("public, max-age=3600");

/// Responds with the public key as PEM. The first request of a vault makes the key pair.
pub(crate) async fn webhook_key(app: &Arc<App>, trace: &TraceId) -> Response {
    // A storage that cannot keep a new key pair must not cost one for each request.
    if let Some(reason) = app.storage_reason() {
        return Problem::NotReady(reason).response(trace);
    }
    // In a separate task: a client that disconnects must not cancel the work, because each such
    // client would then start another one.
    let task_app = Arc::clone(app);
    let key = tokio::spawn(async move { task_app.webhook_signing_key().await }).await;
    let panicked = |_| Err(Error::Internal("loading the key for webhooks panicked".into()));
    match key.unwrap_or_else(panicked) {
        Ok(key) => pem_response(key.public_key_pem().to_owned()),
        Err(error) => name_storage_cause(app, Problem::Failed(error)).response(trace),
    }
}

fn pem_response(pem: String) -> Response {
    let mut response = Response::new(Body::from(pem));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-pem-file"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.extensions_mut().insert(CACHE_TIME);
    response
}
