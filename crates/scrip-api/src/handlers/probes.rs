//! Health and readiness probes. They need no key and reveal nothing.

use std::{sync::Arc, time::Duration};

use axum::response::Response;
use scrip_core::types::StoreError;
use tokio::time::timeout;

use crate::{
    app::{
        App,
        readiness::{NotReadyReason, ReadinessCheck, ReadinessResult},
    },
    problem::Problem,
    trace_id::TraceId,
    wire,
};

/// Responds while the process is alive.
pub(crate) async fn healthz() -> Response {
    health_response()
}

pub fn health_response() -> Response {
    wire::response::json(200, r#"{"status":"ok"}"#.to_owned())
}

/// For clients that test the address of the server.
pub(crate) fn ping_response() -> Response {
    wire::response::from_rendered(wire::response::no_content())
}

/// Probes have short timeouts, so a slow check is reported as "not ready" before the client gives
/// up.
pub const READINESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Anyone can call `/readyz`, and a check costs a transaction: at most four checks per second.
const CHECK_CACHE_TIME: Duration = Duration::from_millis(250);

fn is_fresh(last_check: ReadinessCheck, app: &App) -> bool {
    (app.ticks)().saturating_sub(last_check.at) < CHECK_CACHE_TIME
}

/// Responds with 200 if the store is available. While all requests are rejected,
/// `rejecting_router` responds instead.
pub(crate) async fn readyz(app: &Arc<App>, trace: &TraceId) -> Response {
    readiness_response(find_readiness(app).await, trace)
}

pub fn readiness_response(result: ReadinessResult, trace: &TraceId) -> Response {
    match result {
        ReadinessResult::Ready => wire::response::json(200, r#"{"status":"ready"}"#.to_owned()),
        ReadinessResult::Overloaded => Problem::Overloaded.response(trace),
        ReadinessResult::NotReady(reason) => Problem::NotReady(reason).response(trace),
    }
}

/// Returns a known reason, else the result of the last check. Runs a new check if that is too old;
/// concurrent requests share one. A check writes nothing.
pub async fn find_readiness(app: &Arc<App>) -> ReadinessResult {
    if let Some(reason) = app.not_ready_reason() {
        return ReadinessResult::NotReady(reason);
    }
    let last_check = app.health.readiness.0.try_lock().ok().and_then(|it| *it);
    if let Some(last_check) = last_check.filter(|it| is_fresh(*it, app)) {
        return last_check.result;
    }
    // In a separate task: a client that disconnects must not cancel the check, because each such
    // client would then start another one.
    let check = tokio::spawn(check_readiness(Arc::clone(app)));
    match timeout(READINESS_TIMEOUT, check).await {
        Ok(result) => result.unwrap_or(ReadinessResult::Overloaded),
        Err(_) => ReadinessResult::NotReady(NotReadyReason::StoreUnreachable),
    }
}

async fn check_readiness(app: Arc<App>) -> ReadinessResult {
    let mut last = app.health.readiness.0.lock().await;
    if let Some(last) = last.filter(|it| is_fresh(*it, &app)) {
        return last.result;
    }
    app.metrics.readiness_checks.increment();
    let result = timeout(READINESS_TIMEOUT, app.vault.store.check_ready()).await;
    let timed_out = || Err(StoreError::Unavailable("the store did not respond in time".into()));
    let result = result.unwrap_or_else(|_| timed_out());
    // The store logs an outage once, so a probe that notices it first is not logged.
    if let Err(error) = &result {
        tracing::debug!(cause = %error, "readiness check failed");
    }
    let result = match result {
        Ok(()) => ReadinessResult::Ready,
        Err(StoreError::Busy) => ReadinessResult::Overloaded,
        Err(StoreError::Unavailable(_) | StoreError::AlreadyCompleted | StoreError::Corrupt(_)) => {
            ReadinessResult::NotReady(NotReadyReason::StoreUnreachable)
        }
    };
    *last = Some(ReadinessCheck { at: (app.ticks)(), result });
    result
}
