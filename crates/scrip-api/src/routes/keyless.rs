//! The table of routes that need no API key: probes, API description, framed pages.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS},
};

use crate::{
    app::App,
    handlers::{
        pages::{self, html},
        probes,
        webhooks::public_key,
    },
    openapi,
    route::{AddressLimit, KeylessRoute, ResponseFuture},
    trace_id::TraceId,
};

#[rustfmt::skip]
pub(crate) const KEYLESS_ROUTES: &[KeylessRoute] = &[
    KeylessRoute { address_limit: AddressLimit::Exempt, path: "/healthz", handler: |_, _| Box::pin(probes::healthz()) },
    KeylessRoute { address_limit: AddressLimit::Exempt, path: "/readyz", handler: readyz },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/ping", handler: |_, _| ready_response(probes::ping_response()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/openapi.json", handler: |_, _| ready_response(document_response()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/", handler: |_, _| ready_response(redirect_to_docs()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/docs", handler: |_, _| ready_response(html::html_response(openapi::html(), POLICY)) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/docs/style.css", handler: |_, _| ready_response(style_response()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/.well-known/webhooks.v1.key", handler: webhook_key },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/pages/method.html", handler: |app, _| ready_response(pages::method_page(app.vault.fill_random)) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/pages/challenge.html", handler: |app, _| ready_response(pages::challenge_page(app.vault.fill_random)) },
];

fn webhook_key(app: Arc<App>, trace: TraceId) -> ResponseFuture {
    Box::pin(async move { public_key::webhook_key(&app, &trace).await })
}

fn ready_response(response: Response) -> ResponseFuture {
    Box::pin(std::future::ready(response))
}

fn readyz(app: Arc<App>, trace: TraceId) -> ResponseFuture {
    Box::pin(async move { probes::readyz(&app, &trace).await })
}

/// For a person who opens the address of the server in a browser. Not permanent, so that browsers do
/// not remember it.
fn redirect_to_docs() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/docs"));
    response
}

fn document_response() -> Response {
    response_with_type(openapi::json(), "application/json; charset=utf-8")
}

/// The page loads only our own stylesheet, and no other site can put it into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

fn style_response() -> Response {
    response_with_type(Bytes::from_static(openapi::STYLE.as_bytes()), "text/css; charset=utf-8")
}

fn response_with_type(body: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
