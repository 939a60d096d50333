//! Schemas on the page: a few words for a value, and a table for an object.

use serde_json::Value;

use crate::openapi::page::{escape, inline, list, text};

/// What a value is, in a few words.
pub(super) fn shape(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").rsplit('/').next().filter(|it| !it.is_empty()) {
        let name = escape(name);
        return format!("<a href=\"#shape-{name}\">{name}</a>");
    }
    let branches: Vec<_> = alternatives(schema).map(shape).collect();
    if !branches.is_empty() && schema.get("type").is_none() {
        return branches.join(" or ");
    }
    if schema.get("enum").is_some() {
        let value = |it: &Value| format!("<code>{}</code>", escape(it.as_str().unwrap_or("null")));
        let values: Vec<_> = list(schema, "enum").map(value).collect();
        return if values.is_empty() { "nothing".to_owned() } else { values.join(" ") };
    }
    let one = |kind: &str| match kind {
        "array" => format!("list of {}", schema.get("items").map_or("anything".to_owned(), shape)),
        "object" => match schema.get("additionalProperties").filter(|it| it.is_object()) {
            Some(value) => format!("map to {}", shape(value)),
            None => "object".to_owned(),
        },
        "string" => match text(schema, "format") {
            "" => "text".to_owned(),
            format => format!("text ({})", escape(format)),
        },
        "integer" => "whole number".to_owned(),
        other => escape(other),
    };
    let kinds: Vec<_> = match schema.get("type") {
        None => return "anything".to_owned(),
        Some(Value::String(kind)) => vec![one(kind)],
        Some(_) => list(schema, "type").filter_map(Value::as_str).map(one).collect(),
    };
    format!("{}{}", kinds.join(" or "), bounds(schema))
}

fn bounds(schema: &Value) -> String {
    let from_to = |least: &str, most: &str, unit: &str| {
        let (least, most) = (schema.get(least), schema.get(most));
        match (least.filter(|it| **it != 0), most) {
            (None, None) => String::new(),
            (Some(least), None) => format!(", from {least}{unit}"),
            (None, Some(most)) => format!(", at most {most}{unit}"),
            (Some(least), Some(most)) => format!(", {least} to {most}{unit}"),
        }
    };
    [
        from_to("minLength", "maxLength", " characters"),
        from_to("minItems", "maxItems", " entries"),
        from_to("minimum", "maximum", ""),
    ]
    .concat()
}

/// A table of what an object has, and of the objects in it; nothing for what is no object.
pub(super) fn attributes(schema: &Value) -> String {
    let required: Vec<_> = list(schema, "required").filter_map(Value::as_str).collect();
    let row = |(name, value): (&String, &Value)| {
        let presence = if required.contains(&name.as_str()) { "required" } else { "optional" };
        let default = value.get("default").map(|it| format!("Default: <code>{it}</code>."));
        format!(
            "<tr><td><code>{name}</code></td><td>{presence}</td><td>{shape}</td>\
             <td>{about} {default}{inner}</td></tr>\n",
            name = escape(name),
            shape = shape(value),
            about = inline(text(value, "description")),
            default = default.unwrap_or_default(),
            inner = attributes(value.get("items").unwrap_or(value)),
        )
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let rows: String = properties.into_iter().flatten().map(row).collect();
    let table = if rows.is_empty() {
        rows
    } else {
        format!("<div class=\"wide\"><table>\n{rows}</table></div>\n")
    };
    // Branches that only ask for something to be there would say nothing here.
    let told =
        alternatives(schema).filter(|it| it.get("type").is_some() && it.get("$ref").is_none());
    let branches: String = told
        .map(|it| (text(it, "title"), attributes(it)))
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
