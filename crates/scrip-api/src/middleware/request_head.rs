//! The head of a request: host, path ids, query, content type, idempotency key, single headers.

use axum::{RequestPartsExt, extract::Path};
use hyper::{
    HeaderMap,
    header::{AsHeaderName, CONTENT_TYPE, HOST, HeaderValue},
    http::request::Parts,
};
use scrip_core::types::{Operation, Plaintext};

use crate::{
    problem::Problem,
    route::{BodyKind, Route},
    wire::{self, list_parameters},
};

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
    list_parameters::check(route.operation, head.uri.query())?;
    check_body_type(route.body, is_body_omitted, &head.headers)?;
    let keyed = KeyedRequest::read(route, head)?;
    let (id, inner_id) = extract_path_ids(route.path_parameter_count, head).await;
    Ok(RequestHead { id, inner_id, keyed })
}

/// The host of a request, as HTTP/1.1 or HTTP/2 names it.
pub(crate) fn request_host(head: &Parts) -> Option<&str> {
    let header = || head.headers.get(HOST).and_then(|it| it.to_str().ok());
    head.uri.authority().map(|it| it.as_str()).or_else(header)
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
