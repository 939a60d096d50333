//! What every request goes through, in this order and nowhere else.
//!
//! Outside the router: trace id, preflight, trailing slash, panics, the headers of every answer.
//! Inside a route: caller, permission, content type, idempotency, body, handler.

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    RequestExt, Router,
    body::Body,
    extract::{Path, Request},
    response::Response,
};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    body::Incoming,
    header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
};
use scrip_core::{
    caller::{Caller, Origin},
    error::Error,
    store::Claim,
};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::{
    app::App,
    http::{
        BodyKind, Route,
        authenticate::{authenticate, single},
        cors,
        idempotency::{self, Next},
        problem::Problem,
        trace::{self, TraceId},
    },
};

/// Where the connection comes from.
#[derive(Debug, Clone, Copy)]
struct Peer(SocketAddr);

/// What a handler is given.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    /// The last segment of the path, where the route has one.
    pub(crate) id: String,
    pub(crate) body: Bytes,
    pub(crate) claim: Option<Claim>,
}

pub(crate) async fn answer(
    router: Router,
    peer: SocketAddr,
    request: hyper::Request<Incoming>,
) -> Response {
    let trace = TraceId::of_headers(request.headers());
    let mut request = request.map(Body::new);
    let mut response = if request.method() == Method::OPTIONS {
        cors::preflight(request.headers())
    } else {
        without_trailing_slash(request.uri_mut());
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(trace.clone());
        let answered = AssertUnwindSafe(router.oneshot(request)).catch_unwind().await;
        match answered {
            Ok(Ok(response)) => response,
            Err(_) => {
                Problem::Failed(Error::Internal("a handler panicked".into())).response(&trace)
            }
        }
    };
    let headers = response.headers_mut();
    cors::add(headers);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(value) = trace.header() {
        headers.insert(trace::HEADER, value);
    }
    response
}

/// Some clients write one everywhere.
fn without_trailing_slash(uri: &mut Uri) {
    let path = uri.path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() {
        return;
    }
    let rest = uri.query().map(|it| format!("{trimmed}?{it}"));
    let rest = rest.unwrap_or_else(|| trimmed.to_owned());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let Ok(changed) = Uri::from_parts(parts) {
        *uri = changed;
    }
}

/// One request at one route.
pub(crate) async fn run(app: &Arc<App>, route: &'static Route, request: Request) -> Response {
    let trace = trace::of(&request);
    let started = app.vault.clock.now();
    let answered = handle(app, route, request, &trace).await;
    let response = answered.unwrap_or_else(|problem| problem.response(&trace));
    let (operation, status) = (route.operation.as_str(), response.status().as_u16());
    let took_ms = app.vault.clock.now().unix_ms.saturating_sub(started.unix_ms);
    tracing::debug!(trace = &*trace.0, operation, status, took_ms, "answered");
    response
}

async fn handle(
    app: &Arc<App>,
    route: &'static Route,
    mut request: Request,
    trace: &TraceId,
) -> Result<Response, Problem> {
    let peer: Option<&Peer> = request.extensions().get();
    let address = peer.map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), |it| it.0.ip());
    let origin = Origin { trace: Arc::clone(&trace.0), address };
    let caller = authenticate(app, request.headers(), origin)?;
    caller.inquire(route.permission)?;
    check_content_type(route.body, request.headers())?;
    let claim = match route.body {
        BodyKind::None => None,
        BodyKind::Json | BodyKind::MergePatch => {
            match idempotency::next(app, &caller, request.headers()).await? {
                Next::Proceed(claim) => claim,
                Next::Replay(response) => return Ok(response),
            }
        }
    };
    let id = request.extract_parts::<Path<String>>().await.map(|Path(id)| id);
    let id = id.unwrap_or_default();
    let body = match route.body {
        BodyKind::None => Bytes::new(),
        BodyKind::Json | BodyKind::MergePatch => read_body(app, request).await?,
    };
    // In a task of its own: a client that breaks off ends this future, and would end the claim
    // while its write is still on the way to a commit.
    let handling = (route.handler)(Asked { app: Arc::clone(app), caller, id, body, claim });
    let handled = tokio::spawn(handling).await;
    handled.unwrap_or_else(|_| Err(Error::Internal("a handler panicked".into()).into()))
}

fn check_content_type(body: BodyKind, headers: &HeaderMap) -> Result<(), Problem> {
    let wanted = match body {
        BodyKind::None => return Ok(()),
        BodyKind::Json => "application/json",
        BodyKind::MergePatch => "application/merge-patch+json",
    };
    let given = single(headers, CONTENT_TYPE.as_str(), "Content-Type")?;
    let given = given.and_then(|it| it.to_str().ok()).and_then(|it| it.split(';').next());
    if given.is_some_and(|it| it.trim().eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    Err(Problem::UnsupportedMediaType(wanted))
}

async fn read_body(app: &App, request: Request) -> Result<Bytes, Problem> {
    let most = app.limits.body_bytes_max;
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if announced.and_then(|it| it.parse::<usize>().ok()).is_some_and(|it| it > most) {
        return Err(Problem::TooLarge);
    }
    let collected = Limited::new(request.into_body(), most).collect();
    match timeout(app.limits.body_deadline, collected).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::TooLarge),
        Ok(Err(_)) => Err(Problem::Malformed("the body broke off".to_owned())),
        Err(_) => Err(Problem::BodyTimeout),
    }
}

/// An answer without a body.
pub(crate) fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
