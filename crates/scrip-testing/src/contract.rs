//! Whether a response is as the OpenAPI document says.

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

#[must_use]
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// One request with its response.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub method: String,
    /// With or without a query.
    pub path: String,
    pub status: u16,
    /// Of the response; names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

/// An OpenAPI document, and the paths of the server that it leaves out.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    document: &'static Value,
    undocumented: &'static [&'static str],
}

/// A sealed server refuses all requests alike, so it does not say which operations are deprecated. The
/// document does not make this difference.
fn is_omitted_when_sealed(exchange: &Exchange, header: &str) -> bool {
    let is_sealed = exchange.status == 503 && exchange.body.contains("the vault is sealed");
    is_sealed && ["Deprecation", "Sunset", "Link"].contains(&header)
}

/// Statuses of a path that is not in the document.
const UNROUTED_STATUSES: [u16; 4] = [404, 405, 429, 503];

impl Contract {
    /// Each undocumented path stands for all paths below it, too.
    #[must_use]
    pub fn new(document: &'static Value, undocumented: &'static [&'static str]) -> Self {
        Self { document, undocumented }
    }

    /// The difference between a response and the document.
    ///
    /// # Errors
    ///
    /// The document does not have this response.
    pub fn check(&self, exchange: &Exchange) -> Result<(), String> {
        let Exchange { method, path, status, headers, body } = exchange;
        let Some(operation) = self.operation(method, path) else {
            return self.check_undocumented(exchange);
        };
        let name = operation["operationId"].as_str().unwrap_or_default();
        let Some(response) = operation["responses"].get(status.to_string()) else {
            return Err(format!("{name} may not answer {status}: {body}"));
        };
        let response = self.resolve(response);
        for (header, described) in response["headers"].as_object().into_iter().flatten() {
            let is_required = self.resolve(described)["required"] == true;
            if is_required
                && !is_omitted_when_sealed(exchange, header)
                && !headers.contains_key(&header.to_ascii_lowercase())
            {
                return Err(format!("{name} answers {status} without {header}"));
            }
        }
        let Some(content) = response["content"].as_object() else {
            let is_empty = body.is_empty();
            return if is_empty { Ok(()) } else { Err(format!("{name} has no body: {body}")) };
        };
        let kind = headers.get("content-type").map_or("", String::as_str);
        let kind = kind.split(';').next().unwrap_or_default();
        let Some(media) = content.get(kind) else {
            return Err(format!("{name} does not answer {status} with {kind:?}"));
        };
        if !kind.ends_with("json") {
            return Ok(());
        }
        let value = serde_json::from_str(body).map_err(|it| format!("{name}: {it}: {body}"))?;
        let rules = SchemaRules::new(self.document);
        rules.check(&media["schema"], &value).map_err(|it| format!("{name}: {it}: {body}"))
    }

    fn check_undocumented(&self, exchange: &Exchange) -> Result<(), String> {
        let Exchange { method, path, status, .. } = exchange;
        let has_no_route = UNROUTED_STATUSES.contains(status);
        let bare = path.split('?').next().unwrap_or_default();
        let is_below =
            |it: &str| bare.strip_prefix(it).is_some_and(|it| it.is_empty() || it.starts_with('/'));
        let is_known = self.undocumented.iter().any(|it| is_below(it));
        if has_no_route || is_known || method == "OPTIONS" || method == "HEAD" {
            return Ok(());
        }
        Err(format!("{method} {bare} answers {status} and is not in the document"))
    }

    fn operation(&self, method: &str, path: &str) -> Option<&'static Value> {
        let path = path.split('?').next()?.trim_end_matches('/');
        let fits = |template: &str| {
            let (template, path) = (template.split('/'), path.split('/'));
            template.clone().count() == path.clone().count()
                && template.zip(path).all(|(a, b)| a == b || a.starts_with('{'))
        };
        let paths = self.document["paths"].as_object()?;
        // A path without names is taken before one with.
        let item = paths.get(path).or_else(|| paths.iter().find(|it| fits(it.0)).map(|it| it.1))?;
        item.get(method.to_ascii_lowercase())
    }

    /// The value that a reference leads to; any other value is itself.
    #[must_use]
    pub fn resolve(&self, value: &'static Value) -> &'static Value {
        SchemaRules::new(self.document).resolve(value)
    }
}
