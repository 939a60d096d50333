//! What every request goes through, in this order and nowhere else.
//!
//! Outside the router: trace id, preflight, trailing slash, panics, the headers of every answer.
//! Inside a row of the route table: the address and what it may ask. At a row that needs a key also
//! caller, limits, permission, memory for the answer, deprecation, content type, idempotency, body,
//! handler; at a callback content type, body, handler.

use std::{
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use axum::{
    RequestPartsExt, Router,
    body::{Body, HttpBody},
    extract::{Path, Request},
    response::Response,
};
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    http::{Extensions, request::Parts},
};
use scrip_core::{
    audit::{EntityType, Operation},
    error::Error,
    operations::record_refusal::{Refused, record_refusal},
    policy::{Caller, Directory, Origin, rate_limit::Network},
};
use tower::ServiceExt;
use tracing::Instrument;
use zeroize::Zeroizing;

use crate::{
    app::App,
    deprecation,
    metrics::Metrics,
    middleware::{
        answer_body::AnswerBudget,
        authenticate::{authenticate, single},
        body::read_body,
        cors,
        idempotency::{self, Compared, Next},
        span::RouteName,
        throttle,
        trace::{self, TraceId},
        unread_body,
        watch::Watch,
    },
    problem::Problem,
    route::{Asked, BodyKind, Counted, Heard, Keyless, Outside, Route, names},
};

/// Who is at the other end, as far as proxies that we trust can tell.
#[derive(Debug, Clone, Copy)]
struct Client(IpAddr);

/// What every listener does around a request: names it, passes over what nobody read of its body,
/// and forbids to cache the answer.
pub async fn around<B>(
    request: hyper::Request<B>,
    answer: impl AsyncFnOnce(Request, &TraceId) -> Response,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let trace = TraceId::of_headers(request.headers());
    let (request, unread) = unread_body::split(request);
    let mut response = answer(request, &trace).await;
    unread.settle(&mut response).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// One request of a client of the interface.
pub async fn answer<B>(
    metrics: &Metrics,
    router: Router,
    client: IpAddr,
    request: hyper::Request<B>,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    around(request, async |mut request: Request, trace: &TraceId| {
        let mut response = if request.method() == Method::OPTIONS {
            cors::preflight(request.headers())
        } else {
            without_trailing_slash(request.uri_mut());
            request.extensions_mut().insert(Client(client));
            request.extensions_mut().insert(trace.clone());
            let answered = AssertUnwindSafe(router.oneshot(request)).catch_unwind().await;
            match answered {
                Ok(Ok(response)) => response,
                Err(_) => {
                    metrics.panics.one();
                    Problem::Failed(Error::Internal("a handler panicked".into())).response(trace)
                }
            }
        };
        cors::add(response.headers_mut());
        if let Some(value) = trace.header() {
            response.headers_mut().insert(trace::HEADER, value);
        }
        response
    })
    .await
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

/// Who asks, as far as proxies that we trust can tell.
pub fn client(extensions: &Extensions) -> IpAddr {
    let client: Option<&Client> = extensions.get();
    client.map_or(Ipv4Addr::UNSPECIFIED.into(), |it| it.0)
}

/// A row of one of the tables, or none.
#[derive(Clone)]
pub(crate) enum Row {
    /// Needs a key.
    Keyed(&'static Route),
    /// Told by a browser or a directory server, which have no key.
    Callback(&'static Outside),
    Keyless(&'static Keyless),
    /// The same refusal for all.
    Nowhere(Arc<Problem>),
}

impl Row {
    /// What stands for an operation is measured.
    fn name(&self) -> Option<RouteName> {
        match self {
            Self::Keyed(route @ Route { operation, path, .. }) => {
                Some(RouteName { operation: *operation, method: route.method_name(), path })
            }
            Self::Callback(Outside { operation, path, .. }) => {
                Some(RouteName { operation: *operation, method: "POST", path })
            }
            Self::Keyless(_) | Self::Nowhere(_) => None,
        }
    }

    fn refuse(&self, problem: &Problem, trace: &TraceId) -> Response {
        let response = problem.response(trace);
        match self {
            Self::Callback(row) => (row.refuse)(response, problem),
            Self::Keyed(_) | Self::Keyless(_) | Self::Nowhere(_) => response,
        }
    }
}

/// A request on its way through a row.
struct Arrived {
    head: Parts,
    body: Body,
    trace: TraceId,
    address: IpAddr,
}

/// One request at one row.
pub(crate) async fn run(app: &Arc<App>, row: &Row, request: Request) -> Response {
    let (trace, address) = (trace::of(&request), client(request.extensions()));
    let (head, body) = request.into_parts();
    let mut arrived = Arrived { head, body, trace, address };
    let Some(name) = row.name() else {
        let answered = handle(app, row, &mut arrived).await;
        return answered.unwrap_or_else(|problem| row.refuse(&problem, &arrived.trace));
    };
    let operation: Operation = name.operation;
    let watch = Watch::begin(app, name, &arrived.trace, &arrived.head.headers);
    let answered = watch.over(app, handle(app, row, &mut arrived)).await;
    let mut response = answered.unwrap_or_else(|problem| row.refuse(&problem, &arrived.trace));
    deprecation::mark(operation, arrived.head.uri.path(), response.headers_mut());
    watch.end(app, &arrived.trace, response.status().as_u16());
    response
}

async fn handle(app: &Arc<App>, row: &Row, arrived: &mut Arrived) -> Result<Response, Problem> {
    match row {
        Row::Keyed(route) => handle_keyed(app, route, arrived).await,
        Row::Callback(row) => handle_callback(app, row, arrived).await,
        Row::Keyless(row) => {
            match row.counted {
                Counted::No => (),
                Counted::ByAddress => throttle::stranger(app, arrived.address).await?,
            }
            Ok((row.handler)(Arc::clone(app), arrived.trace.clone()).await)
        }
        Row::Nowhere(problem) => {
            throttle::stranger(app, arrived.address).await?;
            Ok(problem.response(&arrived.trace))
        }
    }
}

/// Counted before anything is read or looked up.
async fn handle_callback(
    app: &Arc<App>,
    row: &'static Outside,
    arrived: &mut Arrived,
) -> Result<Response, Problem> {
    let Arrived { head, body, trace, address } = arrived;
    throttle::stranger(app, *address).await?;
    check_content_type(Some(row.sent.content_type), &head.headers)?;
    // A browser announces the length of a form; a body without it only holds memory open.
    if row.sent.needs_length && body.size_hint().exact().is_none() {
        return Err(Problem::LengthRequired);
    }
    let mut reservation = app.keyless_body_memory.begin_keyless(Network::of(*address));
    let (deadline, bytes_max) = (app.limits.keyless_deadline(), row.sent.bytes_max);
    let body = read_body(app, body, deadline, bytes_max, &mut reservation).await?;
    let directory = app.directory.load_full().ok_or(Problem::Sealed)?;
    let (id, secret) = path_ids(names(row.path), head).await;
    let heard = Heard {
        app: Arc::clone(app),
        directory,
        origin: Origin { trace: Arc::clone(&trace.0), address: *address },
        id,
        secret: Zeroizing::new(secret),
        query: head.uri.query().map(str::to_owned),
        body,
    };
    let answered = (row.handler)(heard).await;
    drop(reservation);
    answered
}

async fn handle_keyed(
    app: &Arc<App>,
    route: &'static Route,
    arrived: &mut Arrived,
) -> Result<Response, Problem> {
    let address = arrived.address;
    throttle::address(app, address)?;
    let origin = Origin { trace: Arc::clone(&arrived.trace.0), address };
    let known_by = app.directory.load_full();
    let caller = match authenticate(app, &arrived.head.headers, origin).await {
        Ok(known) => throttle::caller(app, route.operation, known).await?,
        Err(problem) => {
            if problem.status() == StatusCode::UNAUTHORIZED {
                app.auth_failures.note(address);
            }
            throttle::stranger(app, address).await?;
            return Err(problem);
        }
    };
    let budget = AnswerBudget::new(app, address);
    budget.check()?;
    let answered = let_in(app, route, arrived, known_by.as_ref(), caller.clone()).await;
    let answered = match answered {
        Ok(response) => budget.count(route, response).await,
        Err(problem) => Err(problem),
    };
    if let Err(problem) = &answered {
        record_refused(app, route, &mut arrived.head, &caller, problem).await;
    }
    answered
}

/// A caller that is known and was told no. Should that not be recorded, it is told no all the same.
async fn record_refused(
    app: &App,
    route: &Route,
    head: &mut Parts,
    caller: &Caller,
    problem: &Problem,
) {
    let Some(outcome) = problem.recorded() else { return };
    let (id, inner_id) = path_ids(route.ids, head).await;
    // The first id of a key's path is its application's.
    let of_key = route.operation.entity_type() == Some(EntityType::ApiKey);
    let entity = if of_key { &inner_id } else { &id };
    let refused = Refused { operation: route.operation, needs: route.needs, entity, outcome };
    if let Err(error) = record_refusal(&app.vault, caller, refused).await {
        let trace = &*caller.origin().trace;
        tracing::error!(trace, ?error, outcome, "a refused request could not be recorded");
    }
}

/// One request of a caller that is known.
async fn let_in(
    app: &Arc<App>,
    route: &'static Route,
    arrived: &mut Arrived,
    known_by: Option<&Arc<Directory>>,
    caller: Caller,
) -> Result<Response, Problem> {
    let Arrived { head, body, .. } = arrived;
    caller.meets(route.needs)?;
    deprecation::admit(route.operation, &app.switched_off).map_err(Problem::Gone)?;
    check_content_type(route.body.content_type(), &head.headers)?;
    // Where many clients share a key, the body decides whether a response is theirs: it is read first.
    let is_compared = caller.is_browser();
    let mut claim = None;
    if route.body.is_idempotent() && !is_compared {
        match idempotency::next(app, &caller, route.operation, &head.headers, None).await? {
            Next::Proceed(proceed) => claim = proceed,
            Next::Replay(response) => return Ok(response),
        }
    }
    let (id, inner_id) = path_ids(route.ids, head).await;
    let mut reservation = app.body_memory.begin(Network::of(caller.origin().address));
    let body = match route.body {
        BodyKind::None | BodyKind::Unread => Bytes::new(),
        BodyKind::Json | BodyKind::Question | BodyKind::MergePatch => {
            let (deadline, bytes_max) = (app.limits.body_deadline, app.limits.body_bytes_max);
            read_body(app, body, deadline, bytes_max, &mut reservation).await?
        }
    };
    let caller = still(app, known_by, caller, &head.headers).await?;
    caller.meets(route.needs)?;
    let compared = if is_compared { Compared::read(route, head, &body)? } else { None };
    if compared.is_some() {
        let compared = compared.as_ref();
        match idempotency::next(app, &caller, route.operation, &head.headers, compared).await? {
            Next::Proceed(proceed) => claim = proceed,
            Next::Replay(response) => return Ok(response),
        }
    }
    let claimed = claim.is_some();
    let needs = route.needs;
    let query = head.uri.query().map(str::to_owned);
    let accept = head.headers.get(ACCEPT).cloned();
    let asker = caller.clone();
    let asked =
        Asked { app: Arc::clone(app), caller, needs, id, inner_id, query, accept, body, claim };
    // The memory belongs to the handler: it may outlive its client.
    let handling = (route.handler)(asked);
    let handling = async move {
        let handled = handling.await;
        drop(reservation);
        handled
    };
    if !claimed {
        return unless_rejected(&asker, handling.await);
    }
    // In a task of its own: a client that breaks off ends this future, and would end the claim
    // while its write is still on the way to a commit.
    let handled = tokio::spawn(handling.in_current_span()).await.unwrap_or_else(|_| {
        app.metrics.panics.one();
        Err(Error::Internal("a handler panicked".into()).into())
    });
    match unless_rejected(&asker, handled) {
        // Somebody else may have been told yes to the same request, and this is what that changed.
        Err(problem) if problem.status().is_client_error() => {
            let operation = route.operation;
            let (headers, compared) = (&head.headers, compared.as_ref());
            let meanwhile =
                idempotency::meanwhile(app, &asker, operation, headers, compared).await?;
            meanwhile.ok_or(problem)
        }
        handled => handled,
    }
}

/// An evaluation that did not run because too many others did is no fault of the request: 503 and
/// not 400.
fn unless_rejected(
    caller: &Caller,
    handled: Result<Response, Problem>,
) -> Result<Response, Problem> {
    match handled {
        Err(problem) if problem.status().is_client_error() => {
            caller.work().check()?;
            Err(problem)
        }
        handled => handled,
    }
}

/// A body may take its time to arrive, and its sender may have lost its rights meanwhile.
async fn still(
    app: &App,
    known_by: Option<&Arc<Directory>>,
    caller: Caller,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    let now = app.directory.load();
    let same = known_by.zip(now.as_ref()).is_some_and(|(then, now)| Arc::ptr_eq(then, now));
    drop(now);
    if same && caller.session().is_none() && !app.is_sealed() {
        return Ok(caller);
    }
    Ok(authenticate(app, headers, caller.origin().clone()).await?.caller)
}

async fn path_ids(count: usize, head: &mut Parts) -> (String, String) {
    match count {
        0 => (String::new(), String::new()),
        1 => {
            let id = head.extract::<Path<String>>().await;
            (id.map(|Path(id)| id).unwrap_or_default(), String::new())
        }
        _ => {
            head.extract::<Path<(String, String)>>().await.map(|Path(ids)| ids).unwrap_or_default()
        }
    }
}

fn check_content_type(wanted: Option<&'static str>, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(wanted) = wanted else { return Ok(()) };
    let given = single(headers, CONTENT_TYPE.as_str(), "Content-Type")?;
    let given = given.and_then(|it| it.to_str().ok()).and_then(|it| it.split(';').next());
    if given.is_some_and(|it| it.trim().eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    Err(Problem::UnsupportedMediaType(wanted))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use http_body_util::BodyExt;
    use scrip_core::time::Timestamp;

    use super::*;

    async fn broken() -> Response {
        panic!("4242424242424242")
    }

    #[tokio::test]
    async fn a_panic_is_a_500_that_tells_nothing() {
        let router = Router::new().route("/broken", get(broken));
        let request = Request::builder().uri("/broken/").header("bt-trace-id", "trace-7");
        let client = [127, 0, 0, 1].into();
        let metrics = Metrics::new(Timestamp { unix_ms: 0 });
        let request = request.body(Body::empty()).unwrap();
        let response = answer(&metrics, router, client, request).await;
        assert_eq!(metrics.panics.get(), 1);
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()["bt-trace-id"], "trace-7");
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["status"], 500);
        assert!(!body.to_string().contains("4242"));
    }
}
