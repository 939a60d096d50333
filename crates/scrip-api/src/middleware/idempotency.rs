//! The idempotency key: claim, replay, or 409.

use axum::response::Response;
use hyper::{header::HeaderValue, http::request::Parts};
use scrip_core::{
    Error,
    idempotency::{IdempotencyClaim, RequestContent},
    operations::claim_idempotency_key::{ClaimDecision, claim_idempotency_key},
    policy::Caller,
    types::{Operation, Plaintext},
};

use crate::{
    app::App,
    metrics,
    middleware::request_head::single_header,
    problem::Problem,
    route::{BodyKind, Route},
    wire,
};

/// The next step of a request with an idempotency key.
pub(crate) enum IdempotencyStep {
    Proceed(IdempotencyClaim),
    Replay(Response),
}

/// A request with an idempotency key. Its stored response is replayed only to an equal request.
pub(crate) struct KeyedRequest {
    key: HeaderValue,
    operation: Operation,
    method: &'static str,
    path: String,
    body: Option<Plaintext>,
}

impl KeyedRequest {
    /// Returns `None` for a request without an idempotency key, and for a route that ignores the
    /// key.
    pub(crate) fn read_head(route: &Route, head: &Parts) -> Result<Option<Self>, Problem> {
        if !route.body.is_idempotent() {
            return Ok(None);
        }
        let key = single_header(&head.headers, HEADER, "BT-IDEMPOTENCY-KEY")?;
        Ok(key.map(|key| Self {
            key: key.clone(),
            operation: route.operation,
            method: route.method_name(),
            path: head.uri.path().to_owned(),
            body: None,
        }))
    }

    /// Adds the body to the comparison. Encrypted data is compared as it was sent: the sender need
    /// not know it, and an equal guess would confirm it.
    pub(crate) fn read_body(&mut self, kind: BodyKind, body: &[u8]) -> Result<(), Problem> {
        self.body = match kind {
            BodyKind::None | BodyKind::ReadOnlyJson | BodyKind::Ignored => None,
            BodyKind::OptionalJson if body.is_empty() => None,
            BodyKind::Json | BodyKind::OptionalJson | BodyKind::MergePatch => {
                Some(wire::json::read(body)?)
            }
        };
        Ok(())
    }

    async fn claim(&self, app: &App, caller: &Caller) -> Result<ClaimDecision, Error> {
        let Self { key, operation, method, path, body } = self;
        let content = RequestContent { method, path, body: body.as_ref() };
        claim_idempotency_key(&app.vault, caller, *operation, key.as_bytes(), content).await
    }
}

pub(crate) const HEADER: &str = "bt-idempotency-key";

pub(crate) async fn claim_or_replay(
    app: &App,
    caller: &Caller,
    request: &KeyedRequest,
) -> Result<IdempotencyStep, Problem> {
    let decision = request.claim(app, caller).await;
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
            Ok(IdempotencyStep::Replay(wire::response::from_replay(replay)))
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
    match request.claim(app, caller).await? {
        ClaimDecision::Proceed(_) => Ok(None),
        ClaimDecision::Replay(replay) => {
            app.metrics.idempotency.increment(metrics::IdempotencyOutcome::Replay);
            Ok(Some(wire::response::from_replay(replay)))
        }
    }
}
