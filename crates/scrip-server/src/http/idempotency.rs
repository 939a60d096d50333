//! The idempotency key: claim, replay, or 409.

use axum::response::Response;
use hyper::HeaderMap;
use scrip_core::{
    audit::Operation,
    caller::Caller,
    error::Error,
    operations::claim_answer::{Turn, claim_answer},
    store::Claim,
};

use crate::{
    app::App,
    http::{authenticate::single, problem::Problem},
    metrics, wire,
};

/// What a request with or without a key may do next.
pub(crate) enum Next {
    Proceed(Option<Claim>),
    Replay(Response),
}

pub(crate) async fn next(
    app: &App,
    caller: &Caller,
    operation: Operation,
    headers: &HeaderMap,
) -> Result<Next, Problem> {
    let Some(key) = single(headers, "bt-idempotency-key", "BT-IDEMPOTENCY-KEY")? else {
        return Ok(Next::Proceed(None));
    };
    let turn = claim_answer(&app.vault, caller, operation, key.as_bytes()).await;
    let counted = match &turn {
        Ok(Turn::Proceed(_)) => Some(metrics::Turn::First),
        Ok(Turn::Replay(_)) => Some(metrics::Turn::Replay),
        Err(Error::Conflict { .. }) => Some(metrics::Turn::Conflict),
        Err(_) => None,
    };
    if let Some(counted) = counted {
        app.metrics.idempotency.one(counted);
    }
    match turn? {
        Turn::Proceed(claim) => Ok(Next::Proceed(Some(claim))),
        Turn::Replay(replay) => Ok(Next::Replay(wire::answer::replayed(replay))),
    }
}

/// The answer that another node gave while this one failed. A claim keeps others of this node away,
/// but nobody else: they may convert the intent, or take the id, after this one has looked for an
/// answer and before it looks for those.
pub(crate) async fn meanwhile(
    app: &App,
    caller: &Caller,
    operation: Operation,
    headers: &HeaderMap,
) -> Option<Response> {
    let key = single(headers, "bt-idempotency-key", "BT-IDEMPOTENCY-KEY").ok()??;
    match claim_answer(&app.vault, caller, operation, key.as_bytes()).await {
        Ok(Turn::Replay(replay)) => {
            app.metrics.idempotency.one(metrics::Turn::Replay);
            Some(wire::answer::replayed(replay))
        }
        Ok(Turn::Proceed(_)) | Err(_) => None,
    }
}
