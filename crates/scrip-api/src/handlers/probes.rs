//! Health and readiness probes. They need no key and reveal nothing.

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

/// Responds while the process is alive.
pub(crate) async fn healthz() -> Response {
    health_response()
}

pub fn health_response() -> Response {
    wire::response::json(200, r#"{"status":"ok"}"#.to_owned())
}

/// Probes have short timeouts, so a slow check is reported as "not ready" before the client gives
/// up.
pub const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Anyone can call `/readyz`, and a check costs a transaction: at most four checks per second.
const CHECK_CACHE_TIME: Duration = Duration::from_millis(250);

fn is_fresh(last_check: ReadinessCheck, app: &App) -> bool {
    (app.ticks)().saturating_sub(last_check.at) < CHECK_CACHE_TIME
}

/// Responds with 200 if the store is available. While the vault is sealed, `sealed_router` responds
/// instead.
pub(crate) async fn readyz(app: &Arc<App>, trace: &TraceId) -> Response {
    readiness_response(is_ready(app).await, trace)
}

pub fn readiness_response(is_ready: bool, trace: &TraceId) -> Response {
    if is_ready {
        return wire::response::json(200, r#"{"status":"ready"}"#.to_owned());
    }
    Problem::NotReady.response(trace)
}

/// Returns the result of the last check, or runs a new check if that is too old. Concurrent
/// requests share one check.
pub async fn is_ready(app: &Arc<App>) -> bool {
    let last_check = app.readiness.0.try_lock().ok().and_then(|it| *it);
    if let Some(last_check) = last_check.filter(|it| is_fresh(*it, app)) {
        return last_check.is_ready;
    }
    // In a separate task: a client that disconnects must not cancel the check, because each such
    // client would then start another one.
    let check = tokio::spawn(check_readiness(Arc::clone(app)));
    timeout(READINESS_TIMEOUT, check).await.is_ok_and(|it| it.unwrap_or(false))
}

async fn check_readiness(app: Arc<App>) -> bool {
    let mut last = app.readiness.0.lock().await;
    if let Some(last) = last.filter(|it| is_fresh(*it, &app)) {
        return last.is_ready;
    }
    app.metrics.readiness_checks.increment();
    let result = timeout(READINESS_TIMEOUT, app.vault.store.check_ready()).await;
    let timed_out = || Err(StoreError::Unavailable("the store did not respond in time".into()));
    let result = result.unwrap_or_else(|_| timed_out());
    if let Err(error) = &result {
        tracing::error!(?error, "readiness check failed");
    }
    let is_ready = result.is_ok();
    *last = Some(ReadinessCheck { at: (app.ticks)(), is_ready });
    is_ready
}
