//! Serves the hosted card fields, and decides which paths the host of the fields has.

mod api_path;
mod field_path;
mod field_response;
mod frame_parents;

use hyper::{
    HeaderMap,
    header::{CONTENT_SECURITY_POLICY, HeaderValue, X_CONTENT_TYPE_OPTIONS},
    http::request::Parts,
};

use self::api_path::BelowApiPath;
pub(crate) use self::{
    api_path::strip_api_path, field_path::FieldPath, field_response::field_response,
};
use crate::{
    app::{
        App,
        field_hosting::{FieldHosting, HostRole},
    },
    middleware::request_head::request_host,
    problem::{FieldHostRule, Problem},
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
