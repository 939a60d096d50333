//! The idempotency key: claim, replay, or 409.

use axum::response::Response;
use hyper::{HeaderMap, http::request::Parts};
use scrip_core::{
    audit::Operation,
    error::Error,
    idempotency::{IdempotencyClaim, RequestContent},
    operations::claim_idempotency_key::{ClaimDecision, claim_idempotency_key},
    policy::Caller,
    token::Plaintext,
};

use crate::{
    app::App,
    metrics,
    middleware::authenticate::single_header,
    problem::Problem,
    route::{BodyKind, Route},
    wire,
};

/// The next step of a request, with or without an idempotency key.
pub(crate) enum IdempotencyStep {
    Proceed(Option<IdempotencyClaim>),
    Replay(Response),
}

/// A request to compare: its stored response is replayed only to an equal request.
pub(crate) struct ComparedRequest {
    method: &'static str,
    path: String,
    body: Option<Plaintext>,
}

impl ComparedRequest {
    /// Returns `None` for a request without an idempotency key, and for a route that ignores the
    /// key.
    ///
    /// Encrypted data is compared as it was sent: the sender need not know it, and an equal guess would
    /// confirm it.
    pub(crate) fn read(route: &Route, head: &Parts, body: &[u8]) -> Result<Option<Self>, Problem> {
        let body = match route.body {
            _ if !head.headers.contains_key(HEADER) => return Ok(None),
            BodyKind::None | BodyKind::ReadOnlyJson => return Ok(None),
            BodyKind::Ignored => None,
            BodyKind::OptionalJson if body.is_empty() => None,
            BodyKind::Json | BodyKind::OptionalJson | BodyKind::MergePatch => {
                Some(wire::json::read(body)?)
            }
        };
        let (method, path) = (route.method_name(), head.uri.path().to_owned());
        Ok(Some(Self { method, path, body }))
    }

    fn request(&self) -> RequestContent<'_> {
        RequestContent { method: self.method, path: &self.path, body: self.body.as_ref() }
    }
}

pub(crate) const HEADER: &str = "bt-idempotency-key";

pub(crate) async fn claim_or_replay(
    app: &App,
    caller: &Caller,
    operation: Operation,
    headers: &HeaderMap,
    compared: Option<&ComparedRequest>,
) -> Result<IdempotencyStep, Problem> {
    let Some(key) = single_header(headers, HEADER, "BT-IDEMPOTENCY-KEY")? else {
        return Ok(IdempotencyStep::Proceed(None));
    };
    let decision = claim_key(app, caller, operation, key.as_bytes(), compared).await;
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
        ClaimDecision::Proceed(claim) => Ok(IdempotencyStep::Proceed(Some(claim))),
        ClaimDecision::Replay(replay) => {
            Ok(IdempotencyStep::Replay(wire::response::from_replay(replay)))
        }
    }
}

async fn claim_key(
    app: &App,
    caller: &Caller,
    operation: Operation,
    key: &[u8],
    compared: Option<&ComparedRequest>,
) -> Result<ClaimDecision, Error> {
    claim_idempotency_key(
        &app.vault,
        caller,
        operation,
        key,
        compared.map(ComparedRequest::request),
    )
    .await
}

/// Finds the response of another node that completed the same request while this one failed. A
/// claim blocks only requests on the same node. Another node can convert the intent, or use the id,
/// after this node looked for a stored response.
///
/// # Errors
/// The same request is still in flight on another node, or the store is unavailable.
pub(crate) async fn find_concurrent_response(
    app: &App,
    caller: &Caller,
    operation: Operation,
    headers: &HeaderMap,
    compared: Option<&ComparedRequest>,
) -> Result<Option<Response>, Problem> {
    let key = single_header(headers, HEADER, "BT-IDEMPOTENCY-KEY")?;
    let Some(key) = key else { return Ok(None) };
    match claim_key(app, caller, operation, key.as_bytes(), compared).await? {
        ClaimDecision::Proceed(_) => Ok(None),
        ClaimDecision::Replay(replay) => {
            app.metrics.idempotency.increment(metrics::IdempotencyOutcome::Replay);
            Ok(Some(wire::response::from_replay(replay)))
        }
    }
}
