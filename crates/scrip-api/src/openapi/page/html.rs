//! Parts of HTML, and of the JSON document that they show.

use serde_json::Value;

pub(super) fn table(rows: &str) -> String {
    format!("<div class=\"wide\"><table>\n{rows}</table></div>\n")
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Renders text between backticks as code.
pub(super) fn inline_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let render_part = |(index, part): (usize, &str)| match index.is_multiple_of(2) {
        true => escape(part),
        false => format!("<code>{}</code>", escape(part)),
    };
    parts.map(render_part).collect()
}

pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
