//! CORS: browsers call the API with public keys, from pages of any origin.

use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderName, HeaderValue,
    },
};

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
