//! Checks whether a response matches the OpenAPI document.

pub mod http1;
pub mod recorder;
mod schema;

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

pub use schema::{SchemaRules, matches_pattern};

/// The OpenAPI document. It is read as a file, so that tests of a store need not build the API.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../scrip-api/src/openapi/openapi.json");
    serde_json::from_str(text).expect("the document is JSON")
});

pub fn document() -> &'static Value {
    &DOCUMENT
}

/// One request with its response.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub method: String,
    /// The path with or without a query.
    pub path: String,
    pub status: u16,
    /// The headers of the response, with names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

/// An OpenAPI document, and the paths of the server that are not in it.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    document: &'static Value,
    undocumented: &'static [&'static str],
}

/// A server that is sealed or has lost its storage rejects all requests alike, so its responses do
/// not mark deprecated operations. The document does not describe this difference.
fn is_omitted_when_sealed(exchange: &Exchange, header: &str) -> bool {
    let details = [
        "the vault is sealed",
        "the disk of the vault",
        "the storage of the vault",
        "the database of the vault",
    ];
    let is_rejecting =
        exchange.status == 503 && details.iter().any(|it| exchange.body.contains(it));
    is_rejecting && ["Deprecation", "Sunset", "Link"].contains(&header)
}

/// The document describes proxied calls at this path, and they are served below it too.
const PROXY_PATH: &str = "/proxy";

/// The whole API is also served below this path.
const API_PATH: &str = "/api";

/// Files of the hosted fields. The document describes operations only.
const FIELD_PATHS: [&str; 2] = ["/elements", "/web-elements"];

/// The document cannot describe the answer of a destination. An error of the vault after the answer
/// has the same header.
fn is_answer_of_destination(exchange: &Exchange) -> bool {
    exchange.headers.contains_key("bt-proxy-destination-status")
        && !exchange.body.starts_with("{\"proxy_error\":")
}

/// The statuses with which a server can respond on a path without a route.
const UNROUTED_STATUSES: [u16; 4] = [404, 405, 429, 503];

impl Contract {
    /// Each undocumented path includes all paths below it.
    pub fn new(document: &'static Value, undocumented: &'static [&'static str]) -> Self {
        Self { document, undocumented }
    }

    /// Checks that the document describes a response.
    ///
    /// # Errors
    ///
    /// The document does not describe this response. The text contains the difference.
    pub fn check(&self, exchange: &Exchange) -> Result<(), String> {
        let Exchange { method, path, status, headers, body } = exchange;
        let Some(operation) = self.find_operation(method, path) else {
            return self.check_undocumented(exchange);
        };
        let name = operation["operationId"].as_str().unwrap_or_default();
        if is_answer_of_destination(exchange) {
            return Ok(());
        }
        let responses = &operation["responses"];
        let response = responses.get(status.to_string()).or_else(|| responses.get("default"));
        let Some(response) = response else {
            return Err(format!("{name} must not respond with {status}: {body}"));
        };
        let response = self.resolve(response);
        for (header, header_object) in response["headers"].as_object().into_iter().flatten() {
            let is_required = self.resolve(header_object)["required"] == true;
            if is_required
                && !is_omitted_when_sealed(exchange, header)
                && !headers.contains_key(&header.to_ascii_lowercase())
            {
                return Err(format!("{name} responds with {status} without {header}"));
            }
        }
        let Some(content) = response["content"].as_object() else {
            let is_empty = body.is_empty();
            return if is_empty { Ok(()) } else { Err(format!("{name} has no body: {body}")) };
        };
        let media_type = headers.get("content-type").map_or("", String::as_str);
        let media_type = media_type.split(';').next().unwrap_or_default();
        let Some(media_object) = content.get(media_type) else {
            return Err(format!("{name} does not respond with {status} and {media_type:?}"));
        };
        if !media_type.ends_with("json") {
            return Ok(());
        }
        let value = serde_json::from_str(body).map_err(|it| format!("{name}: {it}: {body}"))?;
        let rules = SchemaRules::new(self.document);
        rules.check(&media_object["schema"], &value).map_err(|it| format!("{name}: {it}: {body}"))
    }

    fn check_undocumented(&self, exchange: &Exchange) -> Result<(), String> {
        let Exchange { method, path, status, .. } = exchange;
        let is_unrouted = UNROUTED_STATUSES.contains(status);
        let path_without_query = path.split('?').next().unwrap_or_default();
        let is_below = |it: &str| {
            path_without_query
                .strip_prefix(it)
                .is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let is_listed = self.undocumented.iter().chain(&FIELD_PATHS).any(|it| is_below(it));
        if is_unrouted || is_listed || method == "OPTIONS" || method == "HEAD" {
            return Ok(());
        }
        Err(format!(
            "{method} {path_without_query} responds with {status} and is not in the document"
        ))
    }

    fn find_operation(&self, method: &str, path: &str) -> Option<&'static Value> {
        let path = path.split('?').next()?.trim_end_matches('/');
        let below_api = path.strip_prefix(API_PATH);
        let path = below_api.filter(|it| it.is_empty() || it.starts_with('/')).unwrap_or(path);
        let is_call = path.strip_prefix(PROXY_PATH).is_some_and(|it| it.starts_with('/'));
        let path = match path {
            "" => "/",
            _ if is_call => PROXY_PATH,
            path => path,
        };
        let matches_template = |template: &str| {
            let (template, path) = (template.split('/'), path.split('/'));
            template.clone().count() == path.clone().count()
                && template
                    .zip(path)
                    .all(|(expected, actual)| expected == actual || expected.starts_with('{'))
        };
        let paths = self.document["paths"].as_object()?;
        // A path without parameters has precedence over one with parameters.
        let item = paths
            .get(path)
            .or_else(|| paths.iter().find(|it| matches_template(it.0)).map(|it| it.1))?;
        item.get(method.to_ascii_lowercase())
    }

    /// Resolves a reference. Any other value is returned unchanged.
    pub fn resolve(&self, value: &'static Value) -> &'static Value {
        SchemaRules::new(self.document).resolve(value)
    }
}
