//! Whether an answer is as the document says: asked of every answer that any test here is given.
//!
//! Knows the part of JSON Schema that the document uses, and refuses to guess at the rest.

use std::{collections::HashMap, sync::LazyLock};

use regex_automata::meta::Regex;
use scrip_api::openapi::document;
use serde_json::Value;

use crate::harness::server::Reply;

/// Panics when the document does not foretell this answer.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, reply: &Reply) {
    let Some(operation) = operation(method, path) else {
        // Not in the document, so nothing there may answer.
        assert!(
            [404, 405, 429, 503].contains(&reply.status) || method == "OPTIONS" || method == "HEAD"
        );
        return;
    };
    let name = &operation["operationId"];
    let response = &operation["responses"][reply.status.to_string()];
    assert!(!response.is_null(), "{name} may not answer {}: {}", reply.status, reply.text);
    let response = resolve(response);
    for header in response["headers"].as_object().into_iter().flatten() {
        let is_required = resolve(header.1)["required"] == true;
        let header = header.0.to_ascii_lowercase();
        let is_there = reply.headers.contains_key(&header);
        assert!(is_there || !is_required, "{name} answers without {header}");
    }
    let Some(content) = response["content"].as_object() else {
        assert_eq!(reply.text, "", "{name} has no body");
        return;
    };
    let kind = reply.headers["content-type"].split(';').next().unwrap();
    let media = content.get(kind);
    assert!(media.is_some(), "{name} does not answer with {kind}");
    let media = media.unwrap();
    if kind.ends_with("json") {
        let found = meets(&media["schema"], &reply.json());
        assert_eq!(found, Ok(()), "{name}: {}", reply.text);
    }
}

fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap().trim_end_matches('/');
    let fits = |template: &str| {
        let (template, path) = (template.split('/'), path.split('/'));
        template.clone().count() == path.clone().count()
            && template.zip(path).all(|(a, b)| a == b || a.starts_with('{'))
    };
    let paths = document()["paths"].as_object().unwrap();
    // A path without names is taken before one with.
    let item = paths.get(path).or_else(|| paths.iter().find(|it| fits(it.0)).map(|it| it.1))?;
    item.get(method.to_ascii_lowercase())
}

pub(crate) fn resolve(value: &'static Value) -> &'static Value {
    let Some(pointer) = value["$ref"].as_str() else { return value };
    let target = document().pointer(pointer.strip_prefix('#').unwrap());
    target.expect(pointer)
}

/// What is wrong with a value, if something is.
pub(crate) fn meets(schema: &'static Value, value: &Value) -> Result<(), String> {
    let schema = resolve(schema);
    for (keyword, wanted) in schema.as_object().unwrap() {
        if !holds(schema, keyword, wanted, value)? {
            return Err(format!("{keyword}: {wanted} but {value}"));
        }
    }
    Ok(())
}

fn holds(
    schema: &'static Value,
    keyword: &str,
    wanted: &'static Value,
    value: &Value,
) -> Result<bool, String> {
    let count = |it: usize| u64::try_from(it).unwrap();
    let chars = || value.as_str().map(|it| count(it.chars().count()));
    let entries = || value.as_array().map(|it| count(it.len()));
    let at_least = |it: Option<u64>| it.is_none_or(|it| it >= wanted.as_u64().unwrap());
    let at_most = |it: Option<u64>| it.is_none_or(|it| it <= wanted.as_u64().unwrap());
    let branches = || wanted.as_array().unwrap().iter().map(|it| meets(it, value));
    Ok(match keyword {
        "description" | "title" | "default" | "examples" => true,
        "type" => match wanted.as_str() {
            Some(kind) => is(value, kind),
            None => wanted.as_array().unwrap().iter().any(|it| is(value, it.as_str().unwrap())),
        },
        "not" => meets(wanted, value).is_err(),
        "enum" => wanted.as_array().unwrap().contains(value),
        "const" => wanted == value,
        "anyOf" => branches().any(|it| it.is_ok()),
        "oneOf" => branches().filter(Result::is_ok).count() == 1,
        "required" => {
            let names = wanted.as_array().unwrap();
            value
                .as_object()
                .is_none_or(|it| names.iter().all(|name| it.contains_key(name.as_str().unwrap())))
        }
        "properties" => {
            for (name, schema) in wanted.as_object().unwrap() {
                let value = value.get(name);
                value
                    .map(|it| meets(schema, it))
                    .transpose()
                    .map_err(|it| format!("{name}: {it}"))?;
            }
            true
        }
        "additionalProperties" => return others(schema, wanted, value),
        "items" => {
            for item in value.as_array().into_iter().flatten() {
                meets(wanted, item)?;
            }
            true
        }
        "pattern" => value.as_str().is_none_or(|it| matches(wanted.as_str().unwrap(), it)),
        "format" => value.as_str().is_none_or(|it| has_format(wanted.as_str().unwrap(), it)),
        "minLength" => at_least(chars()),
        "maxLength" => at_most(chars()),
        "minItems" => at_least(entries()),
        "maxItems" => at_most(entries()),
        "maxProperties" => at_most(value.as_object().map(|it| count(it.len()))),
        "minimum" => at_least(value.as_u64()),
        "maximum" => at_most(value.as_u64()),
        other => unreachable!("the keyword {other} is not known here"),
    })
}

fn others(schema: &Value, wanted: &'static Value, value: &Value) -> Result<bool, String> {
    let described = |name: &str| schema["properties"].get(name).is_some();
    let other = value.as_object().into_iter().flatten().filter(|it| !described(it.0));
    for (name, value) in other {
        if *wanted == false {
            return Err(format!("{name} is not described"));
        }
        meets(wanted, value).map_err(|it| format!("{name}: {it}"))?;
    }
    Ok(true)
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => unreachable!("the type {other} is not known here"),
    }
}

fn has_format(format: &str, text: &str) -> bool {
    match format {
        "uuid" => uuid::Uuid::try_parse(text).is_ok() && text.len() == 36,
        // As we write it: to the second, in UTC.
        "date-time" => {
            matches(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$", text)
        }
        // Said in words, and held by the tests of each.
        "card-number" | "routing-number" | "token-query" | "token-query-v1" => true,
        other => unreachable!("the format {other} is not known here"),
    }
}

pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<std::sync::Mutex<HashMap<String, Regex>>> =
        LazyLock::new(Default::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let regex =
        compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).expect(pattern));
    regex.is_match(text)
}
