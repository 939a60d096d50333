//! Serves the hosted card fields, and decides which paths the host of the fields has.

mod field_response;

use axum::extract::Request;
use hyper::{
    HeaderMap, Uri,
    header::{CONTENT_SECURITY_POLICY, HeaderValue, X_CONTENT_TYPE_OPTIONS},
    http::request::Parts,
};
use scrip_elements::FramePage;

pub(crate) use self::field_response::field_response;
use crate::{
    app::{
        App,
        field_hosting::{FieldHosting, HostRole},
    },
    problem::{FieldHostRule, Problem},
    route::{ReceivedUri, find_host, request_host},
};

/// The decision about a request before the router sees it.
#[derive(Debug)]
pub(crate) enum FieldHostDecision {
    /// The path is one of the hosted fields.
    Serve(FieldPath),
    Reject(FieldHostRule),
    /// The request is one for the API.
    Route,
}

/// Probes answer on every host: a load balancer may check the name of the fields.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Paths without an API key that the host of the fields has below `/api`. Other ones are pages, or
/// belong to pages, and no page of the API must run in the origin of the fields.
const KEYLESS_API_PATHS: [&str; 4] = ["/healthz", "/readyz", "/ping", "/openapi.json"];

/// Decides by path and host whether a request is for the hosted fields.
pub(crate) fn decide(app: &App, head: &Parts) -> FieldHostDecision {
    let (path, is_below_api) = (head.uri.path(), is_below_api(head));
    let field_path = if is_below_api { None } else { FieldPath::parse(path) };
    match (field_path, host_role(app, head)) {
        (Some(path), HostRole::Fields | HostRole::Shared) => FieldHostDecision::Serve(path),
        (Some(_), HostRole::Api) => {
            FieldHostDecision::Reject(absence_rule(&app.settings.field_hosting))
        }
        (None, HostRole::Fields) if !is_below_api && !PROBES.contains(&path) => {
            FieldHostDecision::Reject(FieldHostRule::ApiIsBelowApiPath)
        }
        (None, HostRole::Api | HostRole::Fields | HostRole::Shared) => FieldHostDecision::Route,
    }
}

/// Why a host does not serve the fields.
fn absence_rule(hosting: &FieldHosting) -> FieldHostRule {
    match hosting.origin {
        Some(_) => FieldHostRule::OtherHost,
        None => FieldHostRule::NoOrigin,
    }
}

/// Whether the host of the request is only for the hosted fields.
pub(crate) fn is_field_host(app: &App, head: &Parts) -> bool {
    host_role(app, head) == HostRole::Fields
}

/// Whether the host of a request serves the hosted fields.
pub(crate) fn has_field_host<B>(app: &App, request: &hyper::Request<B>) -> bool {
    let hosting = &app.settings.field_hosting;
    let host = find_host(request.uri(), request.headers()).unwrap_or_default();
    hosting.role(host) != HostRole::Api
}

/// Asks the browser for a process of its own for the documents of the fields. A page on the same site
/// (`shop.example` and `fields.shop.example`) otherwise shares one with them: it could measure which
/// glyphs a field has drawn, or how long its tasks take. The first document of an origin decides, so
/// every response has the header, also an error.
pub(crate) fn request_own_process(headers: &mut HeaderMap) {
    headers.insert("origin-agent-cluster", HeaderValue::from_static("?1"));
}

/// Checks a path that needs no API key. On the host of the fields, no page of the API is served.
/// Errors: the host is the one of the fields, and the path is not one of [`KEYLESS_API_PATHS`].
pub(crate) fn check_keyless(app: &App, head: &Parts, path: &str) -> Result<(), Problem> {
    if KEYLESS_API_PATHS.contains(&path) || !is_field_host(app, head) {
        return Ok(());
    }
    Err(Problem::FieldHost(FieldHostRule::PageOfApi))
}

/// Checks that a script sent a proxied call by `fetch`. Otherwise a destination could place a page
/// or a script into the origin of the fields.
///
/// Errors: the host is the one of the fields, and the browser does not say that a script reads the
/// answer.
pub(crate) fn check_proxied_call(app: &App, head: &Parts) -> Result<(), Problem> {
    let mut values = head.headers.get_all("sec-fetch-dest").iter();
    let is_fetch = values.next().is_some_and(|it| it == "empty") && values.next().is_none();
    if is_fetch || !is_field_host(app, head) {
        return Ok(());
    }
    Err(Problem::FieldHost(FieldHostRule::NotFetch))
}

/// Takes every right from an answer, if a browser displays it in spite of
/// [`check_proxied_call`].
pub(crate) fn restrict_answer(headers: &mut HeaderMap) {
    headers
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

fn host_role(app: &App, head: &Parts) -> HostRole {
    app.settings.field_hosting.role(request_host(head).unwrap_or_default())
}

fn is_below_api(head: &Parts) -> bool {
    head.extensions.get::<BelowApiPath>().is_some()
}

const API_PATH: &str = "/api";

/// Marks a request with a path below `/api`, which was removed.
#[derive(Debug, Clone, Copy)]
struct BelowApiPath;

/// Removes `/api` from the path once, so that routes, metrics and records have one path for an
/// operation.
pub(crate) fn strip_api_path(request: &mut Request) {
    let uri = request.uri();
    let Some(rest) = uri.path().strip_prefix(API_PATH) else { return };
    let path = match rest {
        "" => "/",
        _ if rest.starts_with('/') => rest,
        _ => return,
    };
    let rest = uri.query().map(|it| format!("{path}?{it}")).unwrap_or_else(|| path.to_owned());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    if let Ok(changed) = Uri::from_parts(parts) {
        let received = std::mem::replace(request.uri_mut(), changed);
        request.extensions_mut().insert(ReceivedUri(received));
        request.extensions_mut().insert(BelowApiPath);
    }
}

/// A path of the hosted fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldPath {
    /// The script of the page, in its current release.
    ClientScript,
    Page(FramePage),
    /// A file of one release.
    ReleaseFile {
        release: String,
        name: String,
    },
    /// Below the paths of the fields, but unknown.
    Unknown,
}

impl FieldPath {
    /// Parses a path. `None` if the path is not one of the fields. The version in a path is the one
    /// of the npm package that loads the fields, and any version gets the same files.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        match segments.next()? {
            "elements" => Some(parse_elements(segments)),
            "web-elements" => Some(parse_web_elements(segments)),
            _ => None,
        }
    }
}

fn parse_elements<'a>(mut segments: impl Iterator<Item = &'a str>) -> FieldPath {
    match (segments.next(), segments.next(), segments.next()) {
        (Some("client.js"), None, None) => FieldPath::ClientScript,
        (Some(release), Some(name), None) => {
            FieldPath::ReleaseFile { release: release.to_owned(), name: name.to_owned() }
        }
        _ => FieldPath::Unknown,
    }
}

fn parse_web_elements<'a>(mut segments: impl Iterator<Item = &'a str>) -> FieldPath {
    let path = [(); 4].map(|()| segments.next());
    match path {
        [Some(""), ..] => FieldPath::Unknown,
        [_, Some("client"), Some("index.js"), None] => FieldPath::ClientScript,
        [_, Some("hosted-elements"), Some(name), None] => FramePage::ALL
            .into_iter()
            .find(|it| it.file_name() == name)
            .map_or(FieldPath::Unknown, FieldPath::Page),
        _ => FieldPath::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn api_path_is_removed_once_and_as_a_whole_segment() {
        let cases = [
            ("/api", "/"),
            ("/api/", "/"),
            ("/api?x=/api", "/?x=/api"),
            ("/api/tokens", "/tokens"),
            ("/api/tokens/?start=a%2Fb", "/tokens/?start=a%2Fb"),
            ("/api/api/tokens", "/api/tokens"),
            ("/apis/tokens", "/apis/tokens"),
            ("/tokens/api", "/tokens/api"),
            ("/API/tokens", "/API/tokens"),
            ("/", "/"),
        ];
        for (uri, expected) in cases {
            let mut request = Request::builder().uri(uri).body(Body::empty()).unwrap();
            strip_api_path(&mut request);
            assert_eq!(request.uri().to_string(), expected, "{uri}");
            let is_marked = request.extensions().get::<BelowApiPath>().is_some();
            assert_eq!(is_marked, uri != expected, "{uri}");
        }
    }

    #[test]
    fn field_paths_are_parsed_by_whole_segments() {
        let file = |release: &str, name: &str| {
            Some(FieldPath::ReleaseFile { release: release.to_owned(), name: name.to_owned() })
        };
        let cases = [
            ("/elements/client.js", Some(FieldPath::ClientScript)),
            ("/web-elements/2.17.0/client/index.js", Some(FieldPath::ClientScript)),
            ("/web-elements/1/hosted-elements/field.html", Some(FieldPath::Page(FramePage::Field))),
            (
                "/web-elements/1/hosted-elements/controller.html",
                Some(FieldPath::Page(FramePage::Controller)),
            ),
            ("/elements/0123/field.js", file("0123", "field.js")),
            ("/elements/0123/../field.js", Some(FieldPath::Unknown)),
            ("/elements", Some(FieldPath::Unknown)),
            ("/elements/0123", Some(FieldPath::Unknown)),
            ("/web-elements", Some(FieldPath::Unknown)),
            ("/web-elements/1/hosted-elements", Some(FieldPath::Unknown)),
            ("/web-elements/1/hosted-elements/client.js", Some(FieldPath::Unknown)),
            ("/web-elements/1/hosted-elements/field.html/x", Some(FieldPath::Unknown)),
            ("/web-elements//client/index.js", Some(FieldPath::Unknown)),
            ("/elementsx/client.js", None),
            ("/tokens/elements", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(FieldPath::parse(path), expected, "{path}");
        }
    }
}
