//! Probes for whoever runs the process. They need no key and tell nothing.

use std::time::Duration;

use axum::response::Response;
use scrip_core::store::StoreError;
use tokio::time::timeout;

use crate::{
    app::App,
    http::{problem::Problem, trace::TraceId},
    wire,
};

/// The process answers.
pub(crate) async fn healthz() -> Response {
    wire::answer::json(200, r#"{"status":"ok"}"#.to_owned())
}

/// Whoever asks gives up soon, and takes silence for what it likes.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// The store serves. While the keys are not open, `sealed.rs` answers instead.
pub(crate) async fn readyz(app: &App, trace: &TraceId) -> Response {
    let late = || Err(StoreError::Unavailable("the store does not answer".into()));
    let checked = timeout(READY_WITHIN, app.vault.store.check_ready()).await;
    match checked.unwrap_or_else(|_| late()) {
        Ok(()) => wire::answer::json(200, r#"{"status":"ready"}"#.to_owned()),
        Err(error) => Problem::Failed(error.into()).response(trace),
    }
}
