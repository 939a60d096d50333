//! The idempotency key: claim, replay, or 409.

use axum::response::Response;
use hyper::{HeaderMap, http::request::Parts};
use scrip_core::{
    audit::Operation,
    error::Error,
    idempotency::{Claim, SentRequest},
    operations::claim_answer::{Turn, claim_answer},
    policy::Caller,
    token::Plain,
};

use crate::{
    app::App,
    metrics,
    middleware::authenticate::single,
    problem::Problem,
    route::{BodyKind, Route},
    wire,
};

/// What a request with or without a key may do next.
pub(crate) enum Next {
    Proceed(Option<Claim>),
    Replay(Response),
}

/// A request whose stored response is replayed only to an equal one.
pub(crate) struct Compared {
    method: &'static str,
    path: String,
    body: Option<Plain>,
}

impl Compared {
    /// `None` for a request without an idempotency key, and for a route that ignores it.
    pub(crate) fn read(route: &Route, head: &Parts, body: &[u8]) -> Result<Option<Self>, Problem> {
        let body = match route.body {
            _ if !head.headers.contains_key(HEADER) => return Ok(None),
            BodyKind::None | BodyKind::Question => return Ok(None),
            BodyKind::Unread => None,
            BodyKind::Json | BodyKind::MergePatch => Some(wire::json::read(body)?),
        };
        let (method, path) = (route.method_name(), head.uri.path().to_owned());
        Ok(Some(Self { method, path, body }))
    }

    fn request(&self) -> SentRequest<'_> {
        SentRequest { method: self.method, path: &self.path, body: self.body.as_ref() }
    }
}

const HEADER: &str = "bt-idempotency-key";

pub(crate) async fn next(
    app: &App,
    caller: &Caller,
    operation: Operation,
    headers: &HeaderMap,
    compared: Option<&Compared>,
) -> Result<Next, Problem> {
    let Some(key) = single(headers, HEADER, "BT-IDEMPOTENCY-KEY")? else {
        return Ok(Next::Proceed(None));
    };
    let turn = claim(app, caller, operation, key.as_bytes(), compared).await;
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

async fn claim(
    app: &App,
    caller: &Caller,
    operation: Operation,
    key: &[u8],
    compared: Option<&Compared>,
) -> Result<Turn, Error> {
    claim_answer(&app.vault, caller, operation, key, compared.map(Compared::request)).await
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
    compared: Option<&Compared>,
) -> Result<Option<Response>, Problem> {
    let key = single(headers, HEADER, "BT-IDEMPOTENCY-KEY")?;
    let Some(key) = key else { return Ok(None) };
    match claim(app, caller, operation, key.as_bytes(), compared).await? {
        Turn::Proceed(_) => Ok(None),
        Turn::Replay(replay) => {
            app.metrics.idempotency.one(metrics::Turn::Replay);
            Ok(Some(wire::answer::replayed(replay)))
        }
    }
}
