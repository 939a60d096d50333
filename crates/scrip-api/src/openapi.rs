//! The OpenAPI document, and the page that is rendered from it.
//!
//! The document is the file `openapi/openapi.json`, embedded into the program, with the samples of
//! `openapi/samples`. It does not depend on settings. `openapi/tests` compares it with the route
//! tables and with the tables of the code.

mod page;
mod samples;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;

const SOURCE: &str = include_str!("openapi/openapi.json");

pub(crate) const STYLE: &str = include_str!("openapi/style.css");

/// The document. A test ensures that the source is valid JSON.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
        let mut document = serde_json::from_str(SOURCE).unwrap_or_default();
        samples::add_to(&mut document);
        document
    });
    &DOCUMENT
}

/// The document as the server sends it, without the whitespace of the source.
pub(crate) fn json() -> Bytes {
    static JSON: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    JSON.clone()
}

/// The document as an HTML page.
pub(crate) fn html() -> Bytes {
    static HTML: LazyLock<Bytes> = LazyLock::new(|| page::render(document()).into());
    HTML.clone()
}
