//! The idempotency key: claim, replay, or 409.

use axum::response::Response;
use scrip_core::{
    Error,
    idempotency::{IdempotencyClaim, RequestContent},
    operations::claim_idempotency_key::{ClaimDecision, claim_idempotency_key},
    policy::Caller,
};

use crate::{app::App, metrics, problem::Problem, route::KeyedRequest, wire};

/// The next step of a request with an idempotency key.
pub(crate) enum IdempotencyStep {
    Proceed(IdempotencyClaim),
    Replay(Response),
}

async fn claim(app: &App, caller: &Caller, request: &KeyedRequest) -> Result<ClaimDecision, Error> {
    let KeyedRequest { key, operation, method, path, body } = request;
    let content = RequestContent { method, path, body: body.as_ref() };
    claim_idempotency_key(&app.vault, caller, *operation, key.as_bytes(), content).await
}

pub(crate) async fn claim_or_replay(
    app: &App,
    caller: &Caller,
    request: &KeyedRequest,
) -> Result<IdempotencyStep, Problem> {
    let decision = claim(app, caller, request).await;
    let outcome = match &decision {
        Ok(ClaimDecision::Proceed(_)) => Some(metrics::IdempotencyOutcome::First),
        Ok(ClaimDecision::Replay(_)) => Some(metrics::IdempotencyOutcome::Replay),
        Err(Error::Conflict { .. }) => Some(metrics::IdempotencyOutcome::Conflict),
        Err(_) => None,
    };
    if let Some(outcome) = outcome {
        app.metrics.idempotency.increment(outcome);
    }
    match decision? {
        ClaimDecision::Proceed(claim) => Ok(IdempotencyStep::Proceed(claim)),
        ClaimDecision::Replay(replay) => {
            Ok(IdempotencyStep::Replay(wire::tokens::token_response::from_replay(replay)))
        }
    }
}

/// Finds the response of another node that completed the same request while this one failed. A
/// claim blocks only requests on the same node. Another node can convert the intent, or use the id,
/// after this node looked for a stored response.
///
/// Errors: the same request is still in flight on another node, or the store is unavailable.
pub(crate) async fn find_concurrent_response(
    app: &App,
    caller: &Caller,
    request: &KeyedRequest,
) -> Result<Option<Response>, Problem> {
    match claim(app, caller, request).await? {
        ClaimDecision::Proceed(_) => Ok(None),
        ClaimDecision::Replay(replay) => {
            app.metrics.idempotency.increment(metrics::IdempotencyOutcome::Replay);
            Ok(Some(wire::tokens::token_response::from_replay(replay)))
        }
    }
}
