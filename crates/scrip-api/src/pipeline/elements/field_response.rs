//! The responses with files of the hosted fields.

use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{
        CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH,
        REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
    http::request::Parts,
};
use scrip_core::{
    policy::{ApiKeyLookup, Principal, application::web_origin::WebOrigin},
    types::ApplicationKind,
};
use scrip_elements::{FramePage, PageOrigins, ReleaseFile, release};

use crate::{
    app::App,
    pipeline::elements::FieldPath,
    problem::Problem,
    route::{PublicCacheControl, request_host},
};

/// The path has the hash of its content.
const IMMUTABLE: PublicCacheControl = PublicCacheControl("public, max-age=31536000, immutable");
/// The content changes with a release, or with the origins of an application.
const REVALIDATED: PublicCacheControl = PublicCacheControl("no-cache");

/// Headers of every file. Pages of other sites load them.
const FILE_HEADERS: [(HeaderName, &str); 3] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "cross-origin"),
];

/// A field writes to the clipboard if its page delegates that. It needs no other feature.
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "clipboard-write=(self), clipboard-read=(), camera=(), microphone=(), geolocation=(), \
     payment=(), usb=(), publickey-credentials-get=()",
);

/// Responds with a file of the hosted fields.
/// Errors: the file does not exist in this release, or the method is neither GET nor HEAD.
pub(crate) fn field_response(
    app: &App,
    path: &FieldPath,
    head: &Parts,
) -> Result<Response, Problem> {
    match head.method {
        Method::GET | Method::HEAD => get_response(app, path, head),
        _ => Err(Problem::MethodNotAllowed),
    }
}

fn get_response(app: &App, path: &FieldPath, head: &Parts) -> Result<Response, Problem> {
    let file = match path {
        FieldPath::Page(page) => return Ok(page_response(app, *page, head)),
        FieldPath::Unknown => return Err(Problem::NoRoute),
        FieldPath::ClientScript => {
            let script = release().client_script().ok_or(Problem::NoRoute)?;
            return Ok(file_response(script, REVALIDATED, &head.headers));
        }
        FieldPath::ReleaseFile { release: hash, name } => {
            let release = Some(release()).filter(|it| it.hash() == hash);
            release.and_then(|it| it.find(name)).ok_or(Problem::NoRoute)?
        }
    };
    Ok(file_response(file, IMMUTABLE, &head.headers))
}

fn file_response(
    file: &'static ReleaseFile,
    caching: PublicCacheControl,
    request_headers: &HeaderMap,
) -> Response {
    let content = CachedContent {
        body: Body::from(file.content.as_bytes()),
        content_type: HeaderValue::from_static(file.content_type),
        etag: &file.etag,
    };
    content.response(caching, request_headers)
}

/// A page depends on the application in its URL: its parents are the origins of the application.
fn page_response(app: &App, page: FramePage, head: &Parts) -> Response {
    let parents = FrameParents::find(app, head.uri.query().unwrap_or_default());
    let policy = content_policy(page, &parents);
    let host = request_host(head).unwrap_or_default();
    let field_origin = app.settings.field_hosting.frame_origin(host);
    let origins = PageOrigins {
        field_origin: field_origin.map(WebOrigin::text).unwrap_or_default(),
        allowed_origins: &parents.to_json(),
    };
    let content = release().page(page, origins, &policy);
    let content = CachedContent {
        body: Body::from(content.html),
        content_type: HeaderValue::from_static("text/html; charset=utf-8"),
        etag: &content.etag,
    };
    let mut response = content.response(REVALIDATED, &head.headers);
    // Without a valid policy, no script runs and no page can frame the field.
    let deny_all = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_str(&policy).unwrap_or(deny_all));
    headers.insert("permissions-policy", PERMISSIONS);
    response
}

/// Only the controller sends requests, and only a field runs rules of its page, in a worker. The styles
/// of a page are set by script, not as text.
fn content_policy(page: FramePage, parents: &FrameParents) -> String {
    let (worker, connect) = match page {
        FramePage::Field => ("'self'", ""),
        FramePage::Controller => ("'none'", " connect-src 'self';"),
    };
    let ancestors = parents.to_source_list();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; worker-src {worker};{connect} \
         frame-ancestors {ancestors}; base-uri 'none'; form-action 'none'"
    )
}

struct CachedContent<'a> {
    body: Body,
    content_type: HeaderValue,
    etag: &'a str,
}

impl CachedContent<'_> {
    /// Responds with the content, or with 304 if the client has it.
    fn response(self, caching: PublicCacheControl, request_headers: &HeaderMap) -> Response {
        let is_known = has_entity_tag(request_headers, self.etag);
        let mut response = Response::new(if is_known { Body::empty() } else { self.body });
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        for (name, value) in FILE_HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert(CONTENT_TYPE, self.content_type);
        if let Ok(etag) = HeaderValue::from_str(self.etag) {
            headers.insert(ETAG, etag);
        }
        response.extensions_mut().insert(caching);
        response
    }
}

/// Compares weakly, as RFC 9110 requires for `If-None-Match`: caches that compress a response make
/// its tag weak.
fn has_entity_tag(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|it| it.to_str().ok());
    let mut tags = values.flat_map(|it| it.split(',')).map(str::trim);
    tags.any(|it| it == "*" || it.strip_prefix("W/").unwrap_or(it) == etag)
}

const APPLICATION_PARAMETER: &str = "application";

/// The pages that may frame a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameParents {
    Any,
    Origins(Vec<WebOrigin>),
    /// The URL names an application that does not exist.
    None,
}

impl FrameParents {
    /// Finds the parents by the query of a page. A public API key names the application: pages
    /// know their key, but not the id of their application.
    pub(super) fn find(app: &App, query: &str) -> Self {
        let mut keys = form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == APPLICATION_PARAMETER)
            .map(|(_, key)| key);
        match (keys.next(), keys.next()) {
            (None, _) => Self::Any,
            (Some(key), None) => Self::from_key(app, &key),
            (Some(_), Some(_)) => Self::None,
        }
    }

    fn from_key(app: &App, key: &str) -> Self {
        let directory = app.directory.load();
        let Some(directory) = directory.as_ref() else { return Self::None };
        match directory.find_by_digest(&directory.digest(key)) {
            Some(ApiKeyLookup::Found { principal, .. }) => Self::from_principal(principal),
            Some(ApiKeyLookup::PolicyAltered) | None => Self::None,
        }
    }

    fn from_principal(principal: &Principal) -> Self {
        match principal.kind() {
            ApplicationKind::Public if principal.origins().is_empty() => Self::Any,
            ApplicationKind::Public => Self::Origins(principal.origins().iter().cloned().collect()),
            // Such a key must not be in a URL.
            ApplicationKind::Private | ApplicationKind::Management => Self::None,
        }
    }

    /// The value of `frame-ancestors`.
    pub(super) fn to_source_list(&self) -> String {
        match self {
            Self::Any => "*".to_owned(),
            Self::Origins(origins) => {
                origins.iter().map(WebOrigin::text).collect::<Vec<_>>().join(" ")
            }
            Self::None => "'none'".to_owned(),
        }
    }

    /// The list for the script of the controller. An empty list means any page; an unknown
    /// application also has one, but no page can frame it.
    pub(super) fn to_json(&self) -> String {
        let origins = match self {
            Self::Any | Self::None => &[][..],
            Self::Origins(origins) => origins,
        };
        let texts: Vec<_> = origins.iter().map(WebOrigin::text).collect();
        serde_json::to_string(&texts).unwrap_or_default()
    }
}
