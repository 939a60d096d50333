//! Headers that all HTML pages share, including the content security policy.

use axum::{body::Body, response::Response};
use hyper::header::{
    CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use scrip_types::hex::encode_hex;

/// Replaces a policy that is not a valid header value. No script runs with this policy.
const DENY_ALL_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'");

pub(crate) fn html_response(html: impl Into<Body>, policy: &str) -> Response {
    replace_with_html(Response::new(Body::empty()), html, policy)
}

/// Replaces the body of a response with a page.
pub(crate) fn replace_with_html(
    response: Response,
    html: impl Into<Body>,
    policy: &str,
) -> Response {
    let (mut head, _) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let mut insert = |name: HeaderName, value| head.headers.insert(name, value);
    insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    insert(CONTENT_SECURITY_POLICY, HeaderValue::from_str(policy).unwrap_or(DENY_ALL_POLICY));
    Response::from_parts(head, html.into())
}

/// A nonce for one response: an injected script does not know it, so the browser does not run it.
pub(crate) fn generate_nonce(fill_random: fn(&mut [u8])) -> String {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    encode_hex(&bytes)
}
