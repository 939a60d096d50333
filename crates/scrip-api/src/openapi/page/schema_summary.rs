//! Schemas on the page: a few words for a value, and a table for an object.

use serde_json::Value;

use crate::openapi::page::{escape, inline_code, list, table, text};

/// What a value is, in a few words.
pub(super) fn describe_schema(schema: &Value) -> String {
    if let Some(name) = text(schema, "$ref").rsplit('/').next().filter(|it| !it.is_empty()) {
        let name = escape(name);
        return format!("<a href=\"#shape-{name}\">{name}</a>");
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
    let within = |output: &str, least: &str, most: &str, unit: &str| {
        let bounds = bounds(schema.get(least), schema.get(most), unit);
        let output = [escape(output), bounds].into_iter().filter(|it| !it.is_empty());
        let output = output.collect::<Vec<_>>().join(", ");
        if output.is_empty() { output } else { format!(" ({output})") }
    };
    match kind {
        "array" => {
            let entry = schema.get("items").map_or("anything".to_owned(), describe_schema);
            format!("list{} of {entry}", within("", "minItems", "maxItems", " entries"))
        }
        "object" => match schema.get("additionalProperties").filter(|it| it.is_object()) {
            Some(value) => format!("map to {}", describe_schema(value)),
            None => "object".to_owned(),
        },
        "string" => {
            let format = text(schema, "format");
            format!("text{}", within(format, "minLength", "maxLength", " characters"))
        }
        "integer" => format!("whole number{}", within("", "minimum", "maximum", "")),
        other => escape(other),
    }
}

fn bounds(minimum: Option<&Value>, maximum: Option<&Value>, unit: &str) -> String {
    match (minimum.filter(|it| **it != 0), maximum) {
        (None, None) => String::new(),
        (Some(least), None) => format!("from {least}{unit}"),
        (None, Some(most)) => format!("at most {most}{unit}"),
        (Some(least), Some(most)) => format!("{least} to {most}{unit}"),
    }
}

/// What can have nothing in it is there only to refuse.
fn accepts_values(schema: &Value) -> bool {
    let entries = schema.get("maxItems").is_none_or(|it| *it != 0);
    let values = list(schema, "enum").any(|it| !it.is_null());
    entries && (values || schema.get("enum").is_none())
}

/// A table of what an object has, and of the objects in it; nothing for what is no object.
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
    let told = properties.into_iter().flatten().filter(|it| accepts_values(it.1));
    let rows: String = told.map(row).collect();
    let table = if rows.is_empty() { rows } else { table(&rows) };
    // Branches that only ask for something to be there would say nothing here.
    let told =
        alternatives(schema).filter(|it| it.get("type").is_some() && it.get("$ref").is_none());
    let branches: String = told
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
