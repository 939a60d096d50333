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
///
/// # Errors
/// Nobody can tell, since somebody asks for the same right now, or the engine is away.
pub(crate) async fn meanwhile(
    app: &App,
    caller: &Caller,
    operation: Operation,
    headers: &HeaderMap,
) -> Result<Option<Response>, Problem> {
    let key = single(headers, "bt-idempotency-key", "BT-IDEMPOTENCY-KEY")?;
    let Some(key) = key else { return Ok(None) };
    match claim_answer(&app.vault, caller, operation, key.as_bytes()).await? {
        Turn::Proceed(_) => Ok(None),
        Turn::Replay(replay) => {
            app.metrics.idempotency.one(metrics::Turn::Replay);
            Ok(Some(wire::answer::replayed(replay)))
        }
    }
}
