//! What needs no key: the probes, and what tells of the interface. One row each.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hyper::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

use crate::{
    app::App,
    handlers::{pages, probes},
    middleware::trace::TraceId,
    openapi,
    route::{Answering, Counted, Keyless},
    wire::{
        described::{Description, JSON, Tag, operation},
        schema::{always, answer, any, one_of, text},
    },
};

#[rustfmt::skip]
pub(crate) const KEYLESS: &[Keyless] = &[
    Keyless { name: "healthz", counted: Counted::No, path: "/healthz", handler: |_, _| Box::pin(probes::healthz()), describe: describe_healthz },
    Keyless { name: "readyz", counted: Counted::No, path: "/readyz", handler: readyz, describe: describe_readyz },
    Keyless { name: "get_openapi", counted: Counted::ByAddress, path: "/openapi.json", handler: |_, _| ready(document()), describe: describe_document },
    Keyless { name: "get_docs", counted: Counted::ByAddress, path: "/docs", handler: |_, _| ready(page()), describe: describe_page },
    Keyless { name: "get_docs_style", counted: Counted::ByAddress, path: "/docs/style.css", handler: |_, _| ready(style()), describe: describe_style },
    Keyless { name: "get_method_page", counted: Counted::ByAddress, path: "/pages/method.html", handler: |app, _| ready(pages::method(app.vault.chance)), describe: describe_method_page },
    Keyless { name: "get_challenge_page", counted: Counted::ByAddress, path: "/pages/challenge.html", handler: |app, _| ready(pages::challenge(app.vault.chance)), describe: describe_challenge_page },
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

fn page() -> Response {
    let mut response = with_type(openapi::html(), "text/html; charset=utf-8");
    let mut put = |name: HeaderName, value| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    put(CONTENT_SECURITY_POLICY, POLICY);
    put(REFERRER_POLICY, "no-referrer");
    response
}

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

fn describe_healthz() -> Description {
    operation(Tag::Service, "Whether the process answers").answer(
        200,
        "It does.",
        answer([always("status", one_of(["ok"]))]),
    )
}

fn describe_readyz() -> Description {
    operation(Tag::Service, "Whether the vault serves")
        .about("503 until the keys are open, and while the storage is away.")
        .answer(200, "It does.", answer([always("status", one_of(["ready"]))]))
        .problem(503)
}

fn describe_document() -> Description {
    operation(Tag::Service, "This document")
        .content(200, "An OpenAPI 3.1 document.", Some((JSON, any().with("type", "object"))))
        .problem(503)
}

fn describe_page() -> Description {
    operation(Tag::Service, "This document, for people")
        .content(200, "A page that loads nothing from elsewhere.", Some(("text/html", text())))
        .problem(503)
}

fn describe_style() -> Description {
    operation(Tag::Service, "The stylesheet of the page")
        .content(200, "The stylesheet.", Some(("text/css", text())))
        .problem(503)
}

fn describe_method_page() -> Description {
    operation(Tag::Threeds, "The page around an issuer's method page")
        .about("For the hidden frame of a browser SDK: posts `threeDSMethodData`, and passes on that it is done.")
        .content(200, "A page for a frame.", Some(("text/html", text())))
        .problem(503)
}

fn describe_challenge_page() -> Description {
    operation(Tag::Threeds, "The page around an issuer's challenge")
        .about("For the frame of a browser SDK: posts `creq`, and passes on that it is over.")
        .content(200, "A page for a frame.", Some(("text/html", text())))
        .problem(503)
}
