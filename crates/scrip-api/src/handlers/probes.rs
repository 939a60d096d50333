//! Probes for whoever runs the process. They need no key and tell nothing.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use scrip_core::store::StoreError;
use tokio::time::timeout;

use crate::{
    app::{App, ReadinessCheck},
    middleware::trace::TraceId,
    problem::Problem,
    wire,
};

/// The process answers.
pub(crate) async fn healthz() -> Response {
    health_response()
}

pub fn health_response() -> Response {
    wire::response::json(200, r#"{"status":"ok"}"#.to_owned())
}

/// Whoever asks gives up soon, and takes silence for what it likes.
pub const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Anybody may ask, and a check costs a transaction: at most four of them a second.
const CHECK_CACHE_TIME: Duration = Duration::from_millis(250);

fn is_fresh(last_check: ReadinessCheck, app: &App) -> bool {
    (app.ticks)().saturating_sub(last_check.at) < CHECK_CACHE_TIME
}

/// The store serves. While the keys are not open, `sealed_router` answers instead.
pub(crate) async fn readyz(app: &Arc<App>, trace: &TraceId) -> Response {
    readiness_response(is_ready(app).await, trace)
}

pub fn readiness_response(is_ready: bool, trace: &TraceId) -> Response {
    if is_ready {
        return wire::response::json(200, r#"{"status":"ready"}"#.to_owned());
    }
    Problem::NotReady.response(trace)
}

/// What the last check said, or a new one if that is too long ago. Requests that come during a
/// check share its outcome.
pub async fn is_ready(app: &Arc<App>) -> bool {
    let last = app.readiness.0.try_lock().ok().and_then(|it| *it);
    if let Some(last) = last.filter(|it| is_fresh(*it, app)) {
        return last.is_ready;
    }
    // In a task of its own: a client that breaks off must not end the check, or each of many such
    // clients would start one.
    let checking = tokio::spawn(check_readiness(Arc::clone(app)));
    timeout(READINESS_TIMEOUT, checking).await.is_ok_and(|it| it.unwrap_or(false))
}

async fn check_readiness(app: Arc<App>) -> bool {
    let mut last = app.readiness.0.lock().await;
    if let Some(last) = last.filter(|it| is_fresh(*it, &app)) {
        return last.is_ready;
    }
    app.metrics.readiness_checks.increment();
    let checked = timeout(READINESS_TIMEOUT, app.vault.store.check_ready()).await;
    let late = || Err(StoreError::Unavailable("the store does not answer".into()));
    let checked = checked.unwrap_or_else(|_| late());
    if let Err(error) = &checked {
        tracing::error!(?error, "readiness check failed");
    }
    let is_ready = checked.is_ok();
    *last = Some(ReadinessCheck { at: (app.ticks)(), is_ready });
    is_ready
}
