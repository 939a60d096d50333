//! Builds responses.

use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use scrip_core::idempotency::RenderedResponse;
use serde::Serialize;

pub fn json(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let content_type = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response without a body has no content type.
pub(crate) fn from_rendered(rendered: RenderedResponse) -> Response {
    if rendered.status != 204 {
        return json(rendered.status, rendered.body);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(crate) fn no_content() -> RenderedResponse {
    RenderedResponse::without_tokens(204, String::new())
}

pub(crate) fn render(status: u16, body: &impl Serialize) -> RenderedResponse {
    RenderedResponse::without_tokens(status, serde_json::to_string(body).unwrap_or_default())
}
