//! What needs no key: the probes, and what tells of the interface. One row each.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::{
    app::App,
    handlers::{html, pages, probes},
    middleware::trace::TraceId,
    openapi,
    route::{Answering, Counted, Keyless},
};

#[rustfmt::skip]
pub(crate) const KEYLESS: &[Keyless] = &[
    Keyless { counted: Counted::No, path: "/healthz", handler: |_, _| Box::pin(probes::healthz()) },
    Keyless { counted: Counted::No, path: "/readyz", handler: readyz },
    Keyless { counted: Counted::ByAddress, path: "/openapi.json", handler: |_, _| ready(document()) },
    Keyless { counted: Counted::ByAddress, path: "/docs", handler: |_, _| ready(html::page(openapi::html(), POLICY)) },
    Keyless { counted: Counted::ByAddress, path: "/docs/style.css", handler: |_, _| ready(style()) },
    Keyless { counted: Counted::ByAddress, path: "/pages/method.html", handler: |app, _| ready(pages::method(app.vault.chance)) },
    Keyless { counted: Counted::ByAddress, path: "/pages/challenge.html", handler: |app, _| ready(pages::challenge(app.vault.chance)) },
];

fn ready(response: Response) -> Answering {
    Box::pin(std::future::ready(response))
}

fn readyz(app: Arc<App>, trace: TraceId) -> Answering {
    Box::pin(async move { probes::readyz(&app, &trace).await })
}

fn document() -> Response {
    with_type(openapi::json(), "application/json; charset=utf-8")
}

/// Nothing but our own stylesheet is loaded, and nobody puts the page into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

fn style() -> Response {
    with_type(Bytes::from_static(openapi::STYLE.as_bytes()), "text/css; charset=utf-8")
}

fn with_type(body: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
