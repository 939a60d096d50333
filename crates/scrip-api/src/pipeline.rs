//! What every request goes through, in this order and nowhere else.
//!
//! Outside the router: trace id, preflight, trailing slash, panics, the headers of every answer.
//! Inside a route: address, caller, limits, permission, memory for the answer, deprecation, content
//! type, idempotency, body, handler.

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
    answer::{Remember, Rendered},
    audit::EntityType,
    caller::{Caller, Mandate, Needs, Origin},
    directory::Directory,
    error::Error,
    operations::record_refusal::{Refused, record_refusal},
    rate_limit::Network,
    store::Claim,
};
use tower::ServiceExt;
use tracing::Instrument;

use crate::{
    app::App,
    deprecation,
    keyless::{Counted, Keyless},
    metrics::Metrics,
    middleware::{
        answer_body::AnswerBudget,
        authenticate::{authenticate, single},
        body::read_body,
        cors,
        idempotency::{self, Compared, Next},
        throttle,
        trace::{self, TraceId},
        unread_body,
        watch::Watch,
    },
    problem::Problem,
    routes::{self, BodyKind, Route},
};

/// Who is at the other end, as far as proxies that we trust can tell.
#[derive(Debug, Clone, Copy)]
struct Client(IpAddr);

/// What a handler is given.
pub(crate) struct Asked {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) needs: Needs,
    /// What stands in the path where the route has a name for it.
    pub(crate) id: String,
    pub(crate) inner_id: String,
    pub(crate) query: Option<String>,
    /// What the client says it reads.
    pub(crate) accept: Option<HeaderValue>,
    pub(crate) body: Bytes,
    pub(crate) claim: Option<Claim>,
}

impl Asked {
    pub(crate) fn mandate(&self) -> Result<Mandate, Problem> {
        Ok(self.caller.mandate(self.needs)?)
    }

    /// What remembers the answer, when the request has an idempotency key.
    pub(crate) fn remember<T: ?Sized>(
        &mut self,
        render: impl Fn(&T) -> Rendered + Send + Sync + 'static,
    ) -> Option<Remember<T>> {
        self.claim.take().map(|claim| Remember::new(claim, render))
    }
}

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
    let trace = TraceId::of_headers(request.headers());
    let (mut request, unread) = unread_body::split(request);
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
                Problem::Failed(Error::Internal("a handler panicked".into())).response(&trace)
            }
        }
    };
    unread.settle(&mut response).await;
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

/// A request that comes to no route.
pub fn refuse(problem: &Problem, request: &Request) -> Response {
    problem.response(&trace::of(request))
}

/// A request that comes to no route, and counts all the same.
pub(crate) async fn run_nowhere(app: &App, problem: &Problem, request: Request) -> Response {
    match throttle::stranger(app, client(request.extensions())).await {
        Ok(()) => refuse(problem, &request),
        Err(throttled) => refuse(&throttled, &request),
    }
}

/// A request for what needs no key.
pub(crate) async fn run_keyless(
    app: Arc<App>,
    row: &'static Keyless,
    request: Request,
) -> Response {
    let counted = match row.counted {
        Counted::No => Ok(()),
        Counted::ByAddress => throttle::stranger(&app, client(request.extensions())).await,
    };
    match counted {
        Ok(()) => (row.handler)(app, trace::of(&request)).await,
        Err(throttled) => refuse(&throttled, &request),
    }
}

pub fn client(extensions: &Extensions) -> IpAddr {
    let client: Option<&Client> = extensions.get();
    client.map_or(Ipv4Addr::UNSPECIFIED.into(), |it| it.0)
}

/// One request at one route.
pub(crate) async fn run(app: &Arc<App>, route: &'static Route, request: Request) -> Response {
    let trace = trace::of(&request);
    let (mut head, mut body) = request.into_parts();
    let named = (routes::method_name(route.method), route.path);
    let watch = Watch::begin(app, route.operation, named, (&trace, &head.headers));
    let handling = handle(app, route, (&mut head, &mut body), &trace);
    let answered = watch.over(app, handling).await;
    let mut response = answered.unwrap_or_else(|problem| problem.response(&trace));
    deprecation::mark(route.operation, head.uri.path(), response.headers_mut());
    watch.end(app, &trace, response.status().as_u16());
    response
}

async fn handle(
    app: &Arc<App>,
    route: &'static Route,
    (head, body): (&mut Parts, &mut Body),
    trace: &TraceId,
) -> Result<Response, Problem> {
    let address = client(&head.extensions);
    throttle::address(app, address)?;
    let origin = Origin { trace: Arc::clone(&trace.0), address };
    let known_by = app.directory.load_full();
    let caller = match authenticate(app, &head.headers, origin).await {
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
    let answered = let_in(app, route, (head, body), (known_by.as_ref(), caller.clone())).await;
    let answered = match answered {
        Ok(response) => budget.count(route, response).await,
        Err(problem) => Err(problem),
    };
    if let Err(problem) = &answered {
        record_refused(app, route, head, (&caller, problem)).await;
    }
    answered
}

/// A caller that is known and was told no. Should that not be recorded, it is told no all the same.
async fn record_refused(
    app: &App,
    route: &Route,
    head: &mut Parts,
    (caller, problem): (&Caller, &Problem),
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
    (head, body): (&mut Parts, &mut Body),
    (known_by, caller): (Option<&Arc<Directory>>, Caller),
) -> Result<Response, Problem> {
    caller.meets(route.needs)?;
    deprecation::admit(route.operation, &app.switched_off)?;
    check_content_type(route.body.content_type(), &head.headers)?;
    // Where many clients share a key, the body decides whether a response is theirs: it is read first.
    let is_compared = caller.compares_requests();
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
            read_body(app, body, app.limits.body_bytes_max, &mut reservation).await?
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

pub(crate) async fn path_ids(count: usize, head: &mut Parts) -> (String, String) {
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

pub(crate) fn check_content_type(
    wanted: Option<&'static str>,
    headers: &HeaderMap,
) -> Result<(), Problem> {
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
