//! Renders schemas on the page: a short description for a value, a table for an object.

use serde_json::Value;

use crate::openapi::page::html::{escape, inline_code, list, table, text};

/// Describes a value in a few words.
pub(super) fn describe_schema(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").rsplit('/').next().filter(|it| !it.is_empty()) {
        let name = escape(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    let branches: Vec<_> = alternatives(schema).map(describe_schema).collect();
    if !branches.is_empty() && schema.get("type").is_none() {
        return branches.join(" or ");
    }
    if schema.get("enum").is_some() {
        let value = |it: &Value| format!("<code>{}</code>", escape(it.as_str().unwrap_or("null")));
        let values: Vec<_> = list(schema, "enum").map(value).collect();
        return if values.is_empty() { "nothing".to_owned() } else { values.join(" ") };
    }
    match schema.get("type") {
        None => "anything".to_owned(),
        Some(Value::String(kind)) => describe_type(schema, kind),
        Some(_) => {
            let kinds = list(schema, "type").filter_map(Value::as_str);
            kinds.map(|it| describe_type(schema, it)).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn describe_type(schema: &Value, kind: &str) -> String {
    let describe_limits = |format: &str, minimum: &str, maximum: &str, unit: &str| {
        let bounds = bounds(schema.get(minimum), schema.get(maximum), unit);
        let limits = [escape(format), bounds].into_iter().filter(|it| !it.is_empty());
        let limits = limits.collect::<Vec<_>>().join(", ");
        if limits.is_empty() { limits } else { format!(" ({limits})") }
    };
    match kind {
        "array" => {
            let entry = schema.get("items").map_or("anything".to_owned(), describe_schema);
            let limits = describe_limits("", "minItems", "maxItems", " entries");
            format!("list{limits} of {entry}")
        }
        "object" => match schema.get("additionalProperties").filter(|it| it.is_object()) {
            Some(value) => format!("map to {}", describe_schema(value)),
            None => "object".to_owned(),
        },
        "string" => {
            let format = text(schema, "format");
            format!("text{}", describe_limits(format, "minLength", "maxLength", " characters"))
        }
        "integer" => format!("whole number{}", describe_limits("", "minimum", "maximum", "")),
        kind => escape(kind),
    }
}

fn bounds(minimum: Option<&Value>, maximum: Option<&Value>, unit: &str) -> String {
    match (minimum.filter(|it| **it != 0), maximum) {
        (None, None) => String::new(),
        (Some(minimum), None) => format!("from {minimum}{unit}"),
        (None, Some(maximum)) => format!("at most {maximum}{unit}"),
        (Some(minimum), Some(maximum)) => format!("{minimum} to {maximum}{unit}"),
    }
}

/// Returns whether the schema allows a value. A schema without allowed values exists only to reject
/// an attribute.
fn accepts_values(schema: &Value) -> bool {
    let accepts_entries = schema.get("maxItems").is_none_or(|it| *it != 0);
    let has_enum_values = list(schema, "enum").any(|it| !it.is_null());
    accepts_entries && (has_enum_values || schema.get("enum").is_none())
}

/// Renders a table of the attributes of an object and of its nested objects; empty for other
/// values.
pub(super) fn attribute_table(schema: &Value) -> String {
    let required: Vec<_> = list(schema, "required").filter_map(Value::as_str).collect();
    let row = |(name, value): (&String, &Value)| {
        let presence = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let default = value.get("default").map(|it| format!("Default: <code>{it}</code>."));
        format!(
            "<tr><td><code>{name}</code></td><td>{presence}</td><td>{shape}</td>\
             <td>{about} {default}{inner}</td></tr>\n",
            name = escape(name),
            shape = describe_schema(value),
            about = inline_code(text(value, "description")),
            default = default.unwrap_or_default(),
            inner = attribute_table(value.get("items").unwrap_or(value)),
        )
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let attributes = properties.into_iter().flatten().filter(|it| accepts_values(it.1));
    let rows: String = attributes.map(row).collect();
    let table = if rows.is_empty() { rows } else { table(&rows) };
    // Branches without a type only require attributes; their tables would be empty.
    let typed =
        alternatives(schema).filter(|it| it.get("type").is_some() && it.get("$ref").is_none());
    let branches: String = typed
        .map(|it| (text(it, "title"), attribute_table(it)))
        .filter(|(_, table)| !table.is_empty())
        .map(|(title, table)| match title {
            "" => format!("<p>Either:</p>\n{table}"),
            title => format!("<p>When the type is <code>{}</code>:</p>\n{table}", escape(title)),
        })
        .collect();
    format!("{table}{branches}")
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    list(schema, "oneOf").chain(list(schema, "anyOf"))
}
