//! Probes for whoever runs the process. They need no key and tell nothing.

use axum::response::Response;

use crate::{
    app::App,
    http::{problem::Problem, trace::TraceId},
    wire,
};

/// The process answers.
pub(crate) async fn healthz() -> Response {
    wire::answer::json(200, r#"{"status":"ok"}"#.to_owned())
}

/// The store serves. While the keys are not open, `sealed.rs` answers instead.
pub(crate) async fn readyz(app: &App, trace: &TraceId) -> Response {
    match app.vault.store.check_ready().await {
        Ok(()) => wire::answer::json(200, r#"{"status":"ready"}"#.to_owned()),
        Err(error) => Problem::Failed(error.into()).response(trace),
    }
}
