//! The steps of every request, in order.
//!
//! 1. Outside of the router ([`serve_api_request`]): trace id, preflight, `/api`, trailing slash. On the
//!    way back: panics, headers of every response, the rest of an unread body.
//! 2. Route: host of a proxy, hosted field, path of a proxied call, router ([`route_request`]). A proxied
//!    call leaves the pipeline here ([`proxied_call`]).
//! 3. At every route ([`run_route`]): metrics and span, a single host.
//! 4. At a keyless route and a callback: rate limit of the client address, path on the host of the hosted
//!    fields. A callback has then a content type, a body and a handler.
//! 5. At a keyed route ([`handle_keyed`]): rate limit of the client address, caller, rate limits, memory
//!    for the response.
//! 6. Then ([`handle_admitted`]): origin of the page, key of the hosted fields, permission, disabled
//!    operation, query, content type, idempotency key, body, changed policy, handler. The handler of a
//!    request with an idempotency key runs in its own task.
//! 7. On the way back: response of another node, overload, memory of the response, record of a rejection,
//!    deprecation headers, metrics and span.

mod elements;
mod proxied_call;

use std::{
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::Request,
    response::Response,
};
use bytes::Bytes;
use futures_util::FutureExt;
use hyper::{
    Method,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, HeaderValue},
    http::{Extensions, request::Parts},
};
use scrip_core::{
    Error,
    policy::{
        Caller, Directory, RequestOrigin,
        rate_limit::{ClientNetwork, RateLimitTarget},
    },
};
use tower::ServiceExt;
use tracing::Instrument;
use zeroize::Zeroizing;

use self::{
    elements::{FieldHostDecision, FieldPath, field_response, is_field_host, strip_api_path},
    proxied_call::run_call,
};
use crate::{
    app::App,
    deprecation,
    metrics::{Metrics, UnroutedReason},
    middleware::{
        admission::{
            admit_caller, check_caller, check_host, count_anonymous, reauthenticate_if_changed,
        },
        body::{self, ResponseBudget, read_body, read_route_body},
        cors,
        idempotency::{IdempotencyStep, claim_or_replay, find_concurrent_response},
        rejection_record::record_rejected_request,
        request_observer::{RequestObserver, RouteName},
    },
    problem::{
        Problem,
        not_ready::{name_storage_cause, not_ready},
    },
    proxy::call::CallEntry,
    route::{
        AddressLimit, AuthenticatedRequest, BodyKind, CallbackRequest, CallbackRoute, Handled,
        IncomingRequest, KeylessRoute, PublicCacheControl, RequestHead, Route, check_content_type,
        count_path_parameters, extract_path_ids, is_proxy_path, read_request_head, request_host,
        strip_trailing_slash,
    },
    trace_id::{self, TraceId},
};

/// The client's IP address, as reported by trusted proxies.
#[derive(Debug, Clone, Copy)]
struct ClientAddress(IpAddr);

/// Wraps the handling of a request on every listener: assigns a trace id, drains the unread body,
/// and forbids caching of the response, except of one with a [`PublicCacheControl`].
pub async fn serve_request<B>(
    request: hyper::Request<B>,
    respond: impl AsyncFnOnce(Request, &TraceId) -> Response,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let trace = TraceId::from_headers(request.headers());
    let (request, unread) = body::split(request);
    let mut response = respond(request, &trace).await;
    unread.drain_or_close(&mut response).await;
    let cache_control = response.extensions_mut().remove::<PublicCacheControl>();
    let value = cache_control.map_or("no-store", |it| it.0);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(value));
    response
}

/// Serves one request to the API. The paths of proxied calls do not need the router.
pub async fn serve_api_request<B>(
    app: &Arc<App>,
    router: Router,
    client: IpAddr,
    request: hyper::Request<B>,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let respond = async |request: Request| route_request(app, router, request).await;
    let is_field_host = elements::has_field_host(app, &request);
    let mut response = serve_with_recovery(&app.metrics, client, request, respond).await;
    if is_field_host {
        elements::request_own_process(response.headers_mut());
    }
    response
}

/// Responds to a request of the API. A panic becomes an error without details.
async fn serve_with_recovery<B>(
    metrics: &Metrics,
    client: IpAddr,
    request: hyper::Request<B>,
    respond: impl AsyncFnOnce(Request) -> Response,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let is_head = request.method() == Method::HEAD;
    serve_request(request, async |mut request: Request, trace: &TraceId| {
        let mut response = if request.method() == Method::OPTIONS {
            cors::preflight_response(request.headers())
        } else {
            strip_api_path(&mut request);
            strip_trailing_slash(&mut request);
            request.extensions_mut().insert(ClientAddress(client));
            request.extensions_mut().insert(trace.clone());
            let response = AssertUnwindSafe(respond(request)).catch_unwind();
            response.await.unwrap_or_else(|_| {
                metrics.panics.increment();
                Problem::Failed(Error::Internal("a handler panicked".into())).response(trace)
            })
        };
        cors::add_headers(response.headers_mut());
        if let Some(value) = trace.header() {
            response.headers_mut().insert(trace_id::HEADER, value);
        }
        if is_head { drop_body(response) } else { response }
    })
    .await
}

/// The response to HEAD, also an error. With HTTP/2, a body is an error of the protocol.
fn drop_body(response: Response) -> Response {
    if response.body().is_end_stream() {
        return response;
    }
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}

/// Finds the route of a request. Proxied calls are the most frequent requests, and every path below
/// theirs is a call, so they skip the router, which costs several allocations.
async fn route_request(app: &Arc<App>, router: Router, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let route = if app.rejection_reason().is_none() { find_unrouted(app, &head) } else { None };
    let request = Request::from_parts(head, body);
    if let Some(route) = route {
        return Box::pin(run_route(app, &route, request)).await;
    }
    let Ok(response) = router.oneshot(request).await;
    response
}

/// The route of a request that does not need the router.
fn find_unrouted(app: &App, head: &Parts) -> Option<MatchedRoute> {
    let directory = app.directory.load();
    let is_proxy_host = directory.as_ref().is_some_and(|it| {
        it.has_proxy_hosts()
            // A tenant must not take over the origin of the fields.
            && !is_field_host(app, head)
            && request_host(head).is_some_and(|host| it.find_proxy_by_host(host).is_some())
    });
    if is_proxy_host {
        return Some(MatchedRoute::Proxy(CallEntry::Host));
    }
    match elements::decide(app, head) {
        FieldHostDecision::Serve(path) => Some(MatchedRoute::HostedField(path)),
        FieldHostDecision::Reject(rule) => {
            app.metrics.unrouted.increment(UnroutedReason::NoRoute);
            Some(MatchedRoute::Unmatched(Arc::new(Problem::FieldHost(rule))))
        }
        FieldHostDecision::Route => {
            is_proxy_path(head.uri.path()).then_some(MatchedRoute::Proxy(CallEntry::Path))
        }
    }
}

/// Returns the client's IP address, as reported by trusted proxies.
pub fn client_address(extensions: &Extensions) -> IpAddr {
    let client: Option<&ClientAddress> = extensions.get();
    client.map_or(Ipv4Addr::UNSPECIFIED.into(), |it| it.0)
}

/// The route that matches a request.
#[derive(Clone)]
pub(crate) enum MatchedRoute {
    /// Needs an API key.
    Keyed(&'static Route),
    /// A notification of a browser or a directory server, which have no API key.
    Callback(&'static CallbackRoute),
    Keyless(&'static KeylessRoute),
    Proxy(CallEntry),
    /// A file of the hosted fields.
    HostedField(FieldPath),
    /// No route matches; every request gets the same problem.
    Unmatched(Arc<Problem>),
}

impl MatchedRoute {
    /// Returns the name for metrics and spans. Only routes of an operation are measured.
    fn route_name(&self) -> Option<RouteName> {
        match self {
            Self::Keyed(route @ Route { operation, path, .. }) => {
                Some(RouteName { operation: *operation, method: route.method_name(), path })
            }
            Self::Callback(CallbackRoute { operation, path, .. }) => {
                Some(RouteName { operation: *operation, method: "POST", path })
            }
            Self::Keyless(_) | Self::Proxy(_) | Self::HostedField(_) | Self::Unmatched(_) => None,
        }
    }

    fn reject(&self, app: &App, problem: Problem, trace: &TraceId) -> Response {
        let problem = name_storage_cause(app, problem);
        let response = problem.response(trace);
        match self {
            Self::Callback(row) => (row.render_rejection)(response, &problem),
            Self::Keyed(_)
            | Self::Keyless(_)
            | Self::Proxy(_)
            | Self::HostedField(_)
            | Self::Unmatched(_) => response,
        }
    }
}

/// Runs one request through the route.
pub(crate) async fn run_route(app: &Arc<App>, route: &MatchedRoute, request: Request) -> Response {
    let (trace, address) = (trace_id::trace_id_of(&request), client_address(request.extensions()));
    let (head, body) = request.into_parts();
    let mut incoming = IncomingRequest { head, body, trace, address };
    if let MatchedRoute::Proxy(entry) = route {
        // Boxed, so that the futures of other requests stay small: each is moved several times.
        return Box::pin(run_call(app, *entry, &mut incoming)).await;
    }
    let Some(name) = route.route_name() else {
        let response = handle(app, route, &mut incoming).await;
        return response.unwrap_or_else(|problem| route.reject(app, problem, &incoming.trace));
    };
    let watch = RequestObserver::start(app, name, &incoming.trace, &incoming.head.headers);
    let response = watch.run_handler(app, handle(app, route, &mut incoming)).await;
    let mut response =
        response.unwrap_or_else(|problem| route.reject(app, problem, &incoming.trace));
    deprecation::add_headers(name.operation, incoming.head.uri.path(), response.headers_mut());
    watch.finish(app, &incoming.trace, response.status().as_u16());
    response
}

async fn handle(
    app: &Arc<App>,
    route: &MatchedRoute,
    incoming: &mut IncomingRequest,
) -> Result<Response, Problem> {
    check_host(app, &incoming.head, incoming.address).await?;
    match route {
        MatchedRoute::Keyed(route) => handle_keyed(app, route, incoming).await,
        MatchedRoute::Callback(row) => {
            count_anonymous(app, incoming.address).await?;
            elements::check_keyless(app, &incoming.head, row.path)?;
            handle_callback(app, row, incoming).await
        }
        MatchedRoute::Keyless(row) => {
            match row.address_limit {
                AddressLimit::Exempt => (),
                AddressLimit::Counted => count_anonymous(app, incoming.address).await?,
            }
            elements::check_keyless(app, &incoming.head, row.path)?;
            Ok((row.handler)(Arc::clone(app), incoming.trace.clone()).await)
        }
        MatchedRoute::HostedField(path) => {
            count_anonymous(app, incoming.address).await?;
            field_response(app, path, &incoming.head)
        }
        MatchedRoute::Proxy(_) => Err(Problem::NoRoute),
        MatchedRoute::Unmatched(problem) => {
            count_anonymous(app, incoming.address).await?;
            Ok(problem.response(&incoming.trace))
        }
    }
}

/// Call it after the request was counted toward the rate limit: nothing is read or looked up before.
async fn handle_callback(
    app: &Arc<App>,
    route: &'static CallbackRoute,
    incoming: &mut IncomingRequest,
) -> Result<Response, Problem> {
    let IncomingRequest { head, body, trace, address } = incoming;
    check_content_type(Some(route.format.content_type), &head.headers)?;
    // Browsers announce the length of a form. A form without a length could occupy memory for long.
    if route.format.needs_length && body.size_hint().exact().is_none() {
        return Err(Problem::LengthRequired);
    }
    let mut reservation =
        app.memory.keyless_bodies.start_keyless_reservation(ClientNetwork::from_address(*address));
    let (deadline, bytes_max) = (app.settings.limits.keyless_deadline(), route.format.bytes_max);
    let body = read_body(app, body, deadline, bytes_max, &mut reservation).await?;
    let directory = app.directory.load_full().ok_or_else(|| not_ready(app))?;
    let (id, secret) = extract_path_ids(count_path_parameters(route.path), head).await;
    let request = CallbackRequest {
        app: Arc::clone(app),
        directory,
        origin: RequestOrigin { trace: Arc::clone(&trace.0), address: *address },
        id,
        secret: Zeroizing::new(secret),
        query: head.uri.query().map(str::to_owned),
        body,
    };
    let response = (route.handler)(request).await;
    drop(reservation);
    response
}

async fn handle_keyed(
    app: &Arc<App>,
    route: &'static Route,
    incoming: &mut IncomingRequest,
) -> Result<Response, Problem> {
    let address = incoming.address;
    let origin = RequestOrigin { trace: Arc::clone(&incoming.trace.0), address };
    let directory = app.directory.load_full();
    let target = RateLimitTarget::Operation(route.operation);
    let caller = admit_caller(app, &incoming.head.headers, origin, target).await?;
    let budget = ResponseBudget::new(app, address);
    budget.check()?;
    let response = handle_admitted(app, route, incoming, directory.as_ref(), caller.clone()).await;
    let response = match response {
        Ok(response) => budget.count(route, response).await,
        Err(problem) => Err(problem),
    };
    if let Err(problem) = &response {
        record_rejected_request(app, route, &mut incoming.head, &caller, problem).await;
    }
    response
}

/// Handles a request of a caller that is known and counted.
async fn handle_admitted(
    app: &Arc<App>,
    route: &'static Route,
    incoming: &mut IncomingRequest,
    directory_at_authentication: Option<&Arc<Directory>>,
    mut caller: Caller,
) -> Result<Response, Problem> {
    let IncomingRequest { head, body, address, .. } = incoming;
    check_caller(app, head, &caller, route.requirement)?;
    deprecation::check_enabled(route.operation, &app.settings.disabled_operations)
        .map_err(Problem::Gone)?;
    let is_omitted = route.body == BodyKind::OptionalJson && body.is_end_stream();
    let RequestHead { id, inner_id, mut keyed } =
        read_request_head(route, is_omitted, head).await?;
    // Browsers share a public key, so a stored response is replayed only if the bodies are equal:
    // the body is read first.
    let is_browser = caller.is_browser();
    let mut claim = None;
    if let Some(keyed) = keyed.as_ref().filter(|_| !is_browser) {
        match claim_or_replay(app, &caller, keyed).await? {
            IdempotencyStep::Proceed(proceed) => claim = Some(proceed),
            IdempotencyStep::Replay(response) => return Ok(response),
        }
    }
    let mut reservation =
        app.memory.bodies.start_reservation(ClientNetwork::from_address(*address));
    let body = read_route_body(app, route.body, body, &mut reservation).await?;
    let directory = directory_at_authentication;
    if let Some(again) = reauthenticate_if_changed(app, directory, &caller, &head.headers).await? {
        check_caller(app, head, &again, route.requirement)?;
        caller = again;
    }
    if let Some(keyed) = keyed.as_mut().filter(|_| is_browser) {
        keyed.read_body(route.body, &body)?;
        match claim_or_replay(app, &caller, keyed).await? {
            IdempotencyStep::Proceed(proceed) => claim = Some(proceed),
            IdempotencyStep::Replay(response) => return Ok(response),
        }
    }
    let request = AuthenticatedRequest {
        app: Arc::clone(app),
        caller: caller.clone(),
        requirement: route.requirement,
        id,
        inner_id,
        query: head.uri.query().map(str::to_owned),
        accept: head.headers.get(ACCEPT).cloned(),
        body,
        claim,
    };
    // The handler owns the reserved memory, because it can outlive the connection of its client.
    let handling = (route.handler)(request);
    let handling = async move {
        let handled = handling.await;
        drop(reservation);
        handled
    };
    let Some(keyed) = keyed else {
        return prefer_overload_error(&caller, handling.await);
    };
    let handled = run_in_task(app, handling).await;
    match prefer_overload_error(&caller, handled) {
        // Another node may have completed the same request, and its changes may have caused this
        // error.
        Err(problem) if problem.status().is_client_error() => {
            find_concurrent_response(app, &caller, &keyed).await?.ok_or(problem)
        }
        handled => handled,
    }
}

/// Runs a handler in a separate task: a client that disconnects drops the future of its request.
/// Without the task, the claim would be released while its write is still being committed.
async fn run_in_task(
    app: &App,
    handling: impl Future<Output = Handled> + Send + 'static,
) -> Handled {
    tokio::spawn(handling.in_current_span()).await.unwrap_or_else(|_| {
        app.metrics.panics.increment();
        Err(Error::Internal("a handler panicked".into()).into())
    })
}

/// An evaluation that was rejected by overload is not an error of the request: 503 instead of 400.
fn prefer_overload_error(
    caller: &Caller,
    result: Result<Response, Problem>,
) -> Result<Response, Problem> {
    match result {
        Err(problem) if problem.status().is_client_error() => {
            caller.work().check()?;
            Err(problem)
        }
        handled => handled,
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, routing::get};
    use http_body_util::BodyExt;
    use scrip_core::Timestamp;

    use super::*;

    async fn panicking_handler() -> Response {
        panic!("4242424242424242")
    }

    #[tokio::test]
    async fn panic_becomes_500_without_details() {
        let router = Router::new().route("/broken", get(panicking_handler));
        let request = Request::builder().uri("/broken/").header("bt-trace-id", "trace-7");
        let client = [127, 0, 0, 1].into();
        let metrics = Metrics::new(Timestamp { unix_ms: 0 });
        let request = request.body(Body::empty()).unwrap();
        let respond = async |request: Request| router.oneshot(request).await.unwrap();
        let response = serve_with_recovery(&metrics, client, request, respond).await;
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
