//! The demo shop of `scrip dev`: a checkout page and a minimal backend.
//!
//! The page is an API client with the public key. Calls that need the private key go through the
//! backend, which is an API client too: its requests pass through the same router and pipeline. The
//! backend charges the card through the proxy of the vault, at a fake provider with its own
//! listener.

mod backend;
mod charge;
pub mod provider;
mod shop;
pub mod webhook_receiver;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::Response,
    routing::{get, post},
};
use hyper::{
    HeaderMap, Uri,
    header::{
        CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
        REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};
use jiff::{SignedDuration, Timestamp};
use scrip_api::{app::App, pipeline, problem::Problem, trace_id};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::SetOnce;

use crate::backend::{BackendFuture, BackendHandler, ShopBackend};
pub use crate::shop::{Demo, ShopKeys};

/// Returns the authority of a URL: host and port.
pub fn authority(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.authority().map(|it| it.as_str().to_owned())
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// The fields of a card, for every page that contains `{{card_fields}}`.
const CARD_FIELDS: &str = include_str!("pages/card-fields.html");

const FILES: &[(&str, &str, &str)] = &[
    ("/demo", HTML, include_str!("pages/index.html")),
    ("/demo/style.css", CSS, include_str!("pages/style.css")),
    ("/demo/journal.css", CSS, include_str!("pages/journal.css")),
    ("/demo/icon.svg", IMAGE, include_str!("pages/icon.svg")),
    ("/demo/checkout.js", SCRIPT, include_str!("pages/checkout.js")),
    ("/demo/card-fields.js", SCRIPT, include_str!("pages/card-fields.js")),
    ("/demo/saved-card", HTML, include_str!("pages/saved-card.html")),
    ("/demo/saved-card.js", SCRIPT, include_str!("pages/saved-card.js")),
    ("/demo/sandbox.js", SCRIPT, include_str!("pages/sandbox.js")),
    ("/demo/payment.js", SCRIPT, include_str!("pages/payment.js")),
    ("/demo/frames.js", SCRIPT, include_str!("pages/frames.js")),
    ("/demo/journal.js", SCRIPT, include_str!("pages/journal.js")),
    ("/demo/outcome.js", SCRIPT, include_str!("pages/outcome.js")),
];

/// Adds the shop. Its backend calls the API through `router`. Requests wait for `demo`, because a
/// server responds to health checks before it has keys for a shop.
pub fn with_demo(router: Router, app: &Arc<App>, demo: &Arc<SetOnce<Demo>>) -> Router {
    let api = router.clone();
    let mut router = router;
    for (path, kind, text) in FILES {
        let demo = Arc::clone(demo);
        let serve_file = async move |request: Request| {
            let trace = trace_id::trace_id_of(&request);
            let demo = demo.wait().await;
            let host = request_host(&request);
            let fields_origin = Demo::fields_origin(host);
            match demo.content_security_policy(&fields_origin) {
                Some(policy) if demo.is_own_host(host) => {
                    let text = text.replace("{{card_fields}}", CARD_FIELDS);
                    let text = text.replace("{{fields_origin}}", &fields_origin);
                    file_response(kind, text, policy)
                }
                _ => Problem::NoRoute.response(&trace),
            }
        };
        router = router.route(path, get(serve_file));
    }
    let backend_route = |handler: BackendHandler| {
        let (app, demo, api) = (Arc::clone(app), Arc::clone(demo), api.clone());
        async move |request: Request| {
            let client = pipeline::client_address(request.extensions());
            let demo = demo.wait().await;
            respond(&ShopBackend { app: &app, demo, router: &api, client }, handler, request).await
        }
    };
    router
        .route("/demo/settings", get(backend_route(backend::settings)))
        .route("/demo/authenticate", post(backend_route(backend::authenticate)))
        .route("/demo/challenge-result", post(backend_route(backend::challenge_result)))
        .route("/demo/charge", post(backend_route(charge::charge)))
        .route("/demo/authorize", post(backend_route(authorize)))
}

fn file_response(content_type: &'static str, text: String, policy: HeaderValue) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    let mut insert_header = |name: HeaderName, value| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    insert_header(CONTENT_TYPE, content_type);
    insert_header(X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert_header(REFERRER_POLICY, "no-referrer");
    response
}

/// Handles one request of the page to the backend.
async fn respond(shop: &ShopBackend<'_>, handler: BackendHandler, request: Request) -> Response {
    let trace = trace_id::trace_id_of(&request);
    // Any site may call the API with a key of its own; only the shop's page may use the shop's
    // private key.
    let host = request_host(&request);
    if !shop.demo.is_own_host(host) || !is_same_origin(host, request.headers()) {
        return Problem::NoRoute.response(&trace);
    }
    let response = handler(shop, request.into_body()).await;
    response.unwrap_or_else(|problem| problem.response(&trace))
}

/// The host of a request: in the URI for HTTP/2, in a header for HTTP/1.1.
fn request_host(request: &Request) -> &str {
    let header = || request.headers().get(HOST).and_then(|it| it.to_str().ok());
    request.uri().authority().map(|it| it.as_str()).or_else(header).unwrap_or_default()
}

/// A browser sends the origin of the page. Other clients can send any headers, but they cannot be
/// misused by a foreign page.
fn is_same_origin(host: &str, headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|it| it.to_str().ok());
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, it)| it == host && !it.is_empty());
    let fetched = headers.get("sec-fetch-site").is_none_or(|it| it == "same-origin");
    fetched && (!headers.contains_key(ORIGIN) || text(ORIGIN).is_some_and(is_own))
}

/// Long enough to show a card, short enough for a browser that stays open.
const SESSION_LENGTH: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizeRequest {
    nonce: String,
    token_id: String,
    purpose: Purpose,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    /// Show the card to its owner.
    Reveal,
    /// Add a security code to the card.
    SecurityCode,
}

/// A real shop checks first that the card belongs to the customer who is signed in. The demo has no
/// customers: it treats the id of the token as the proof.
fn authorize<'a>(shop: &'a ShopBackend<'a>, body: Body) -> BackendFuture<'a> {
    Box::pin(async move {
        let request: AuthorizeRequest = shop.read_json(body).await?;
        let body = authorization(&request, shop.app.vault.clock.now().unix_ms);
        shop.call_vault("POST", "/sessions/authorize", Some(body)).await
    })
}

/// The session may do one thing with one token.
fn authorization(request: &AuthorizeRequest, unix_ms: i64) -> Value {
    let now = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let expires_at = now.checked_add(SESSION_LENGTH).unwrap_or(now).to_string();
    let (transform, permission) = match request.purpose {
        Purpose::Reveal => ("reveal", "token:read"),
        Purpose::SecurityCode => ("redact", "token:update"),
    };
    json!({
        "nonce": request.nonce,
        "expires_at": expires_at,
        "rules": [{
            "description": "One card, for its owner",
            "priority": 1,
            "conditions": [
                { "attribute": "id", "operator": "equals", "value": request.token_id },
            ],
            "permissions": [permission],
            "transform": transform,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_from_the_demo_page_are_same_origin() {
        for (uri, headers, expected) in [
            ("/x", &[("host", "a:1")][..], true),
            ("/x", &[("host", "a:1"), ("origin", "http://a:1")], true),
            ("/x", &[("host", "a:1"), ("origin", "http://a:2")], false),
            ("/x", &[("host", "a:1"), ("origin", "http://b.a:1")], false),
            ("/x", &[("host", "a:1"), ("origin", "null")], false),
            ("/x", &[("host", "a:1"), ("sec-fetch-site", "same-origin")], true),
            ("/x", &[("host", "a:1"), ("sec-fetch-site", "same-site")], false),
            ("/x", &[("host", "a:1"), ("sec-fetch-site", "none")], false),
            ("https://a:1/x", &[("origin", "https://a:1")], true),
            ("https://a:1/x", &[("origin", "https://b")], false),
            ("/x", &[("origin", "http://")], false),
        ] {
            let mut request = Request::builder().uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Body::empty()).unwrap();
            assert_eq!(
                is_same_origin(request_host(&request), request.headers()),
                expected,
                "{uri} {headers:?}"
            );
        }
    }

    #[test]
    fn request_host_is_read_from_uri_or_host_header() {
        let builder = || Request::builder().header(HOST, "localhost:2");
        let created = |it: &str| builder().uri(it).body(Body::empty()).unwrap();
        assert_eq!(request_host(&created("/demo")), "localhost:2");
        assert_eq!(request_host(&created("https://localhost:1/demo")), "localhost:1");
        assert_eq!(request_host(&Request::new(Body::empty())), "");
    }
}
