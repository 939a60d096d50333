//! What every page of ours has in common: its headers, and what keeps others out of it.

use axum::{body::Body, response::Response};
use hyper::header::{
    CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

/// A policy that does not fit into a header is replaced by this one, under which nothing runs.
const DENY_ALL_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'");

pub(crate) fn html_response(html: impl Into<Body>, policy: &str) -> Response {
    replace_with_html(Response::new(Body::empty()), html, policy)
}

/// The same answer, for a person.
pub(crate) fn replace_with_html(
    response: Response,
    html: impl Into<Body>,
    policy: &str,
) -> Response {
    let (mut head, _) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let mut put = |name: HeaderName, value| head.headers.insert(name, value);
    put(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    put(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    put(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    put(CONTENT_SECURITY_POLICY, HeaderValue::from_str(policy).unwrap_or(DENY_ALL_POLICY));
    Response::from_parts(head, html.into())
}

/// For one answer only: a script that somebody else brings in has another, or none.
pub(crate) fn generate_nonce(fill_random: fn(&mut [u8])) -> String {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}
