//! Types of the route tables, the head of a request, and the requests that handlers receive.

#[cfg(test)]
mod tests;

use std::{future::Future, net::IpAddr, pin::Pin, sync::Arc};

use axum::{
    RequestPartsExt,
    body::Body,
    extract::{Path, Request},
    response::Response,
    routing::MethodFilter,
};
use bytes::Bytes;
use hyper::{
    HeaderMap, Uri,
    header::{AsHeaderName, CONTENT_TYPE, HOST, HeaderValue},
    http::request::Parts,
};
use scrip_core::{
    Error, FieldError,
    idempotency::{IdempotencyClaim, RenderedResponse, ResponseRecorder},
    policy::{Caller, CallerRequirement, Directory, PolicyPermit, RequestOrigin},
    types::{AttributePath, Operation, Plaintext},
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use zeroize::Zeroizing;

use crate::{
    app::App,
    problem::Problem,
    trace_id::TraceId,
    wire::{self, ParseError, query::QueryParameters},
};

/// The result of a handler.
pub(crate) type Handled = Result<Response, Problem>;
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// One row of the route table: everything that is decided about a route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub operation: Operation,
    pub(crate) method: MethodFilter,
    pub path: &'static str,
    pub requirement: CallerRequirement,
    pub(crate) body: BodyKind,
    /// The number of parameters in the path.
    pub(crate) path_parameter_count: usize,
    pub(crate) handler: fn(AuthenticatedRequest) -> HandlerFuture,
}

impl Route {
    pub fn method_name(&self) -> &'static str {
        let names = [
            (MethodFilter::GET, "GET"),
            (MethodFilter::POST, "POST"),
            (MethodFilter::PUT, "PUT"),
            (MethodFilter::PATCH, "PATCH"),
            (MethodFilter::DELETE, "DELETE"),
        ];
        names.into_iter().find(|(it, _)| *it == self.method).map_or("", |(_, name)| name)
    }
}

/// The request body that a route accepts. Routes that read a body and change data honor an
/// idempotency key; other routes ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    None,
    /// The body is not read, but the idempotency key is honored.
    Ignored,
    Json,
    /// JSON, or no body at all.
    OptionalJson,
    /// JSON of a request that changes nothing, or nothing more when it is repeated: no response is
    /// stored.
    ReadOnlyJson,
    MergePatch,
}

impl BodyKind {
    /// Whether a response is stored for a request with an idempotency key.
    pub(crate) fn is_idempotent(self) -> bool {
        match self {
            Self::Ignored | Self::Json | Self::OptionalJson | Self::MergePatch => true,
            Self::None | Self::ReadOnlyJson => false,
        }
    }

    /// The required `Content-Type`.
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Ignored => None,
            Self::Json | Self::OptionalJson | Self::ReadOnlyJson => Some("application/json"),
            Self::MergePatch => Some("application/merge-patch+json"),
        }
    }
}

/// The request that the handler of a keyed route receives.
pub(crate) struct AuthenticatedRequest {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) requirement: CallerRequirement,
    /// The first parameter of the path; empty if the path has none.
    pub(crate) id: String,
    pub(crate) inner_id: String,
    pub(crate) query: Option<String>,
    /// The `Accept` header of the request.
    pub(crate) accept: Option<HeaderValue>,
    pub(crate) body: Bytes,
    pub(crate) claim: Option<IdempotencyClaim>,
}

impl AuthenticatedRequest {
    /// Parses the first id of the path, as [`parse_path_id`].
    pub(crate) fn path_id<T>(&self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Problem> {
        parse_path_id(&self.id, parse)
    }

    pub(crate) fn query(&self) -> QueryParameters<'_> {
        QueryParameters::parse(self.query.as_deref())
    }

    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> Result<Plaintext, ParseError> {
        wire::json::read(&self.body)
    }

    /// Responds to a change of the policy, after the directory has it.
    pub(crate) async fn respond_to_change(&self, rendered: RenderedResponse) -> Handled {
        self.app.reload().await?;
        Ok(wire::response::from_rendered(rendered))
    }

    pub(crate) fn policy_permit(&self) -> Result<PolicyPermit, Problem> {
        Ok(self.caller.permit_policy(self.requirement)?)
    }

    /// Returns the recorder that stores the response, if the request has an idempotency key.
    pub(crate) fn response_recorder<T: ?Sized>(
        &mut self,
        render: impl Fn(&T) -> RenderedResponse + Send + Sync + 'static,
    ) -> Option<ResponseRecorder<T>> {
        self.claim.take().map(|claim| ResponseRecorder::new(claim, render))
    }
}

/// A request on its way through the pipeline.
pub(crate) struct IncomingRequest {
    pub(crate) head: Parts,
    pub(crate) body: Body,
    pub(crate) trace: TraceId,
    pub(crate) address: IpAddr,
}

/// Parses an id from the path. Text that is not an id is a 404, the same as an unknown id.
pub(crate) fn parse_path_id<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Problem> {
    parse(text).ok_or(Problem::Failed(Error::NotFound))
}

/// A route for notifications of browsers and directory servers, which have no API key.
pub(crate) struct CallbackRoute {
    pub(crate) operation: Operation,
    pub(crate) path: &'static str,
    pub(crate) format: CallbackFormat,
    /// Renders a rejection in the format that the sender expects.
    pub(crate) render_rejection: fn(Response, &Problem) -> Response,
    pub(crate) handler: fn(CallbackRequest) -> HandlerFuture,
}

/// The required format of a callback body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallbackFormat {
    pub(crate) content_type: &'static str,
    pub(crate) needs_length: bool,
    pub(crate) bytes_max: usize,
}

impl CallbackFormat {
    /// Posted by a page. A person sees the response.
    pub(crate) const FORM: Self = Self {
        content_type: "application/x-www-form-urlencoded",
        needs_length: true,
        bytes_max: 64 * 1024,
    };
    /// Posted by a directory server, which may use chunked encoding.
    pub(crate) const MESSAGE: Self = Self {
        content_type: "application/json",
        needs_length: false,
        bytes_max: MESSAGE_BYTES_MAX,
    };
}

/// The request that the handler of a callback receives.
pub(crate) struct CallbackRequest {
    pub(crate) app: Arc<App>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) origin: RequestOrigin,
    pub(crate) id: String,
    pub(crate) secret: Zeroizing<String>,
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
}

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A route that needs no API key.
pub(crate) struct KeylessRoute {
    pub(crate) address_limit: AddressLimit,
    pub(crate) path: &'static str,
    pub(crate) handler: fn(Arc<App>, TraceId) -> ResponseFuture,
}

/// The `Cache-Control` of a response that is the same for all clients. A header of a handler has no
/// effect: a proxied answer must not be cached, whatever its destination says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublicCacheControl(pub(crate) &'static str);

/// Whether requests count toward the rate limit of the client address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressLimit {
    /// For probes: orchestrators must always receive a response.
    Exempt,
    Counted,
}

pub(crate) const fn count_path_parameters(path: &str) -> usize {
    let mut count = 0_usize;
    let mut remaining = path.as_bytes();
    while let [byte, tail @ ..] = remaining {
        if *byte == b'{' {
            count = count.saturating_add(1);
        }
        remaining = tail;
    }
    count
}

/// Every path below this one is a call.
pub(crate) const PROXY_PATH: &str = "/proxy";

/// The URI as the client sent it, if the pipeline changed it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedUri(pub(crate) Uri);

/// Whether the path is the one of calls, or below it.
pub(crate) fn is_proxy_path(path: &str) -> bool {
    strip_proxy_path(path).is_some()
}

pub(crate) fn strip_proxy_path(path: &str) -> Option<&str> {
    path.strip_prefix(PROXY_PATH).filter(|it| it.is_empty() || it.starts_with('/'))
}

pub(crate) const IDEMPOTENCY_KEY: &str = "bt-idempotency-key";

/// What the pipeline reads from the head of a request before the body.
pub(crate) struct RequestHead {
    /// The first parameter of the path; empty if the path has none.
    pub(crate) id: String,
    pub(crate) inner_id: String,
    /// `None` for a request without an idempotency key, and for a route that ignores the key.
    pub(crate) keyed: Option<KeyedRequest>,
}

/// A request with an idempotency key. Its stored response is replayed only to an equal request.
pub(crate) struct KeyedRequest {
    pub(crate) key: HeaderValue,
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<Plaintext>,
}

impl KeyedRequest {
    fn read(route: &Route, head: &Parts) -> Result<Option<Self>, Problem> {
        if !route.body.is_idempotent() {
            return Ok(None);
        }
        let key = single_header(&head.headers, IDEMPOTENCY_KEY, "BT-IDEMPOTENCY-KEY")?;
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
}

/// Errors: the list has no such parameter, the body has another type, or a header is repeated.
pub(crate) async fn read_request_head(
    route: &Route,
    is_body_omitted: bool,
    head: &mut Parts,
) -> Result<RequestHead, Problem> {
    check_list_parameters(route.operation, head.uri.query())?;
    check_body_type(route.body, is_body_omitted, &head.headers)?;
    let keyed = KeyedRequest::read(route, head)?;
    let (id, inner_id) = extract_path_ids(route.path_parameter_count, head).await;
    Ok(RequestHead { id, inner_id, keyed })
}

/// The host of a request, as HTTP/1.1 or HTTP/2 names it.
pub(crate) fn request_host(head: &Parts) -> Option<&str> {
    find_host(&head.uri, &head.headers)
}

pub(crate) fn find_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = || headers.get(HOST).and_then(|it| it.to_str().ok());
    uri.authority().map(|it| it.as_str()).or_else(header)
}

pub(crate) async fn extract_path_ids(count: usize, head: &mut Parts) -> (String, String) {
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
    expected: Option<&'static str>,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let Some(expected) = expected else { return Ok(()) };
    let given = single_header(headers, CONTENT_TYPE.as_str(), "Content-Type")?;
    let given = given.and_then(|it| it.to_str().ok()).and_then(|it| it.split(';').next());
    if given.is_some_and(|it| it.trim().eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    Err(Problem::UnsupportedMediaType(expected))
}

/// Checks the `Content-Type` of a body. An optional body may have the type of a JSON Patch: the
/// official Python client sends `{}` with this type if it has nothing to say.
///
/// Errors: the body has another type.
fn check_body_type(kind: BodyKind, is_omitted: bool, headers: &HeaderMap) -> Result<(), Problem> {
    let is_optional = kind == BodyKind::OptionalJson;
    if is_optional
        && (is_omitted || check_content_type(Some("application/json-patch+json"), headers).is_ok())
    {
        return Ok(());
    }
    check_content_type(kind.content_type(), headers)
}

/// Rejects a repeated header. Otherwise a proxy in front could use another one of the values than
/// this server.
pub fn single_header<'a>(
    headers: &'a HeaderMap,
    name: impl AsHeaderName,
    display_name: &'static str,
) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(Problem::BadHeader(display_name)),
    }
}

/// Some clients append a slash to every path. The path of a proxied call is not changed.
pub(crate) fn strip_trailing_slash(request: &mut Request) {
    let uri = request.uri();
    let path = uri.path();
    let trimmed = path.trim_end_matches('/');
    if trimmed.len() == path.len() || trimmed.is_empty() || is_proxy_path(path) {
        return;
    }
    let rest = uri.query().map(|it| format!("{trimmed}?{it}"));
    let rest = rest.unwrap_or_else(|| trimmed.to_owned());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let Ok(changed) = Uri::from_parts(parts) {
        let changed = std::mem::replace(request.uri_mut(), changed);
        let received: Option<ReceivedUri> = request.extensions_mut().remove();
        request.extensions_mut().insert(received.unwrap_or(ReceivedUri(changed)));
    }
}

/// The lists, and the parameters that each accepts. All parameters are included that a version of an
/// official client can send, even if they have no effect: `children` and `children_type` belong to an
/// earlier kind of tokens, and `start` does not select a page of a list by page number.
#[rustfmt::skip]
const LIST_PARAMETERS: &[(Operation, &[&str])] = &[
    (Operation::ListTokens, &["container", "type", "fingerprint", "metadata", "size", "start"]),
    (Operation::ListTokensV1, &["id", "ids", "container", "type", "fingerprint", "metadata", "page", "size", "start", "children", "children_type"]),
    (Operation::ListApplications, &["id", "type", "page", "size", "start"]),
    (Operation::ListApiKeys, &["id", "type", "page", "size"]),
    (Operation::ListPermissions, &["application_type"]),
    (Operation::ListProxies, &["id", "name", "page", "size", "start"]),
    (Operation::ListWebhooks, &["start", "size"]),
    (Operation::ListWebhookDeliveries, &["start", "size"]),
    (Operation::ListLogs, &["entity_type", "entity_id", "operation", "outcome", "actor_id", "api_key_id", "start_date", "end_date", "start", "page", "size"]),
    (Operation::ListClientKeys, &[]),
    (Operation::ListWebhookEventTypes, &[]),
    (Operation::ListLogEntityTypes, &[]),
    (Operation::ListConnectionFormulas, &[]),
];

/// The parameters that a list accepts; `None` for an operation that is not a list.
fn list_parameters(operation: Operation) -> Option<&'static [&'static str]> {
    LIST_PARAMETERS.iter().find(|(it, _)| *it == operation).map(|(_, names)| *names)
}

/// More errors would be larger than the query that causes them.
const ERRORS_MAX: usize = 10;

/// Checks the names of the query parameters of a list.
/// Errors: the list does not have one of the parameters.
fn check_list_parameters(operation: Operation, query: Option<&str>) -> Result<(), ParseError> {
    let Some(accepted_names) = list_parameters(operation) else { return Ok(()) };
    let is_accepted = |name: &str| {
        let is_metadata = name.starts_with("metadata.") || name.starts_with("metadata[");
        accepted_names.contains(if is_metadata { &"metadata" } else { &name })
    };
    let query = QueryParameters::parse(query);
    let errors: Vec<_> = query
        .names()
        .filter(|it| !is_accepted(it))
        .take(ERRORS_MAX)
        .map(|it| {
            let mut path = AttributePath::default();
            path.enter(it);
            FieldError { field: path.as_str().to_owned().into(), problem: describe(accepted_names) }
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(Error::Invalid(errors).into()) }
}

fn describe(accepted_names: &[&str]) -> std::borrow::Cow<'static, str> {
    match accepted_names {
        [] => "is not a parameter of this list, which has none".into(),
        names => format!("is not a parameter of this list, which has {}", names.join(", ")).into(),
    }
}
