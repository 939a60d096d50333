//! CORS: browsers call the API with public keys, from pages of any origin.

use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderName, HeaderValue, ORIGIN,
    },
};
use scrip_core::{
    Error,
    policy::{Caller, application::web_origin::WebOrigin},
    types::error::Denial,
};

use crate::app::field_hosting::FieldHosting;

/// Any origin is allowed: requests are authenticated by a key in a header, not by a cookie that
/// another site could use.
const RESPONSE_HEADERS: [(HeaderName, &str); 2] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (
        ACCESS_CONTROL_EXPOSE_HEADERS,
        "bt-trace-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, \
         x-ratelimit-reset, deprecation, sunset, link, bt-proxy-destination-status",
    ),
];

const PREFLIGHT_HEADERS: [(HeaderName, &str); 3] = [
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE, OPTIONS"),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        "content-type, authorization, accept, user-agent, x-fern-language, x-fern-sdk-name, \
         x-fern-sdk-version, x-fern-runtime, x-fern-runtime-version, bt-api-key, \
         bt-idempotency-key, bt-trace-id, bt-device-info",
    ),
    (ACCESS_CONTROL_MAX_AGE, "86400"),
];

pub(crate) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in RESPONSE_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Checks the origin of the page, if the application has origins. Servers and native programs send no
/// origin, and they could send any.
///
/// Errors: the page has another origin, or its origin is not known.
pub(crate) fn check_origin(
    hosting: &FieldHosting,
    headers: &HeaderMap,
    host: Option<&str>,
    caller: &Caller,
) -> Result<(), Error> {
    let origins = caller.principal().origins();
    if origins.is_empty() {
        return Ok(());
    }
    let is_allowed = |value: &HeaderValue| {
        let origin = value.to_str().ok().and_then(|it| WebOrigin::parse(it).ok());
        origin.is_some_and(|it| {
            origins.allow(&it) || hosting.is_own_origin(&it, host.unwrap_or_default())
        })
    };
    if headers.get_all(ORIGIN).iter().all(is_allowed) {
        return Ok(());
    }
    Err(Error::Forbidden(Denial::ForeignOrigin))
}

/// Responds to a preflight request. All requested headers are allowed, so that future BT headers
/// work too.
pub(crate) fn preflight_response(request_headers: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in PREFLIGHT_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Some(requested) = request_headers.get("access-control-request-headers") {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
    }
    response
}
