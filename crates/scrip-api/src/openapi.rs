//! The OpenAPI document, and the page that is rendered from it.
//!
//! The document is the file `openapi/openapi.json`, embedded into the program, with the samples of
//! `openapi/samples`. It does not depend on settings. `openapi/tests` compares it with the route
//! tables and with the tables of the code.

mod page;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::HashMap, sync::LazyLock};

use bytes::Bytes;
use serde_json::{Value, json};

const SOURCE: &str = include_str!("openapi/openapi.json");

pub(crate) const STYLE: &str = include_str!("openapi/style.css");

/// The document. A test ensures that the source is valid JSON.
pub fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
        let mut document = serde_json::from_str(SOURCE).unwrap_or_default();
        add_samples(&mut document);
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

/// The samples of a language. They are source files in their own language instead of parts of
/// `openapi.json`: editors and readers see a program, not one line of JSON with escapes. `tests/samples`
/// runs all of them. Each section starts with a line such as `# operation: get_token`.
struct Language {
    /// The language name for other tools.
    lang: &'static str,
    label: &'static str,
    /// The start of a comment.
    comment: &'static str,
    files: &'static [&'static str],
}

macro_rules! files {
    ($folder:literal, $extension:literal) => {
        files!($folder, $extension,
            "tokens" "token_intents" "applications" "api_keys" "proxies" "client_keys" "webhooks" "sessions" "threeds" "tenant"
            "enrichments" "logs" "connections" "service")
    };
    ($folder:literal, $extension:literal, $($name:literal)*) => {
        &[$(include_str!(concat!("openapi/samples/", $folder, "/", $name, ".", $extension))),*]
    };
}

/// In the order of the page.
const LANGUAGES: [Language; 3] = [
    Language { lang: "Shell", label: "curl", comment: "#", files: files!("curl", "sh") },
    Language { lang: "Python", label: "Python", comment: "#", files: files!("python", "py") },
    Language { lang: "JavaScript", label: "Node.js", comment: "//", files: files!("node", "mjs") },
];

impl Language {
    /// Returns all sections: operation and source. Lines before the first one describe the file.
    fn sections(&self) -> Vec<(&'static str, String)> {
        let section_prefix = format!("{} operation: ", self.comment);
        let mut sections: Vec<(&str, String)> = Vec::new();
        for file in self.files {
            let mut is_inside = false;
            for line in file.lines() {
                if let Some(operation) = line.strip_prefix(&section_prefix) {
                    sections.push((operation, String::new()));
                    is_inside = true;
                } else if let Some((_, source)) = sections.last_mut().filter(|_| is_inside) {
                    source.push_str(line);
                    source.push('\n');
                }
            }
        }
        for (_, source) in &mut sections {
            source.truncate(source.trim_end().len());
            source.push('\n');
        }
        sections
    }
}

/// Adds the samples to the operations of the document.
fn add_samples(document: &mut Value) {
    let mut samples: HashMap<&str, Vec<Value>> = HashMap::new();
    for language in &LANGUAGES {
        for (operation, source) in language.sections() {
            let sample = json!({"lang": language.lang, "label": language.label, "source": source});
            samples.entry(operation).or_default().push(sample);
        }
    }
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(|it| it.values_mut()).filter_map(Value::as_object_mut);
    for operation in items.flat_map(|it| it.values_mut()).filter_map(Value::as_object_mut) {
        let id = operation.get("operationId").and_then(Value::as_str);
        if let Some(samples) = id.and_then(|it| samples.remove(it)) {
            operation.insert("x-codeSamples".to_owned(), Value::Array(samples));
        }
    }
}
