//! The part of JSON Schema that the document uses. An unknown keyword is an error.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use regex_automata::meta::Regex;
use serde_json::Value;
use uuid::Uuid;

/// The schemas of a document.
#[derive(Debug, Clone, Copy)]
pub struct SchemaRules {
    document: &'static Value,
}

impl SchemaRules {
    pub fn new(document: &'static Value) -> Self {
        Self { document }
    }

    /// Resolves a reference. Any other value is returned unchanged.
    pub fn resolve(&self, value: &'static Value) -> &'static Value {
        let Some(pointer) = value["$ref"].as_str() else { return value };
        let target = self.document.pointer(pointer.strip_prefix('#').unwrap_or(pointer));
        target.unwrap_or_else(|| panic!("the reference {pointer} has no target"))
    }

    /// Checks a value against a schema.
    ///
    /// # Errors
    ///
    /// The value violates the schema. The text contains the reason.
    pub fn check(&self, schema: &'static Value, value: &Value) -> Result<(), String> {
        let schema = self.resolve(schema);
        for (keyword, expected) in schema.as_object().expect("a schema is an object") {
            if !self.check_keyword(schema, keyword, expected, value)? {
                return Err(format!("{keyword}: {expected} but {value}"));
            }
        }
        Ok(())
    }

    fn check_keyword(
        &self,
        schema: &'static Value,
        keyword: &str,
        expected: &'static Value,
        value: &Value,
    ) -> Result<bool, String> {
        let char_count = || value.as_str().map(|it| it.chars().count());
        let item_count = || value.as_array().map(Vec::len);
        let to_u64 = |it: usize| u64::try_from(it).unwrap();
        let at_least = |it: Option<u64>| it.is_none_or(|it| it >= expected.as_u64().unwrap());
        let at_most = |it: Option<u64>| it.is_none_or(|it| it <= expected.as_u64().unwrap());
        let expected_items = || expected.as_array().unwrap().iter();
        Ok(match keyword {
            "description" | "title" | "default" | "examples" => true,
            "type" => match expected.as_str() {
                Some(kind) => has_type(value, kind),
                None => expected_items().any(|it| has_type(value, it.as_str().unwrap())),
            },
            "not" => self.check(expected, value).is_err(),
            "enum" => expected_items().any(|it| it == value),
            "const" => expected == value,
            "anyOf" => expected_items().any(|it| self.check(it, value).is_ok()),
            "oneOf" => expected_items().filter(|it| self.check(it, value).is_ok()).count() == 1,
            "required" => value.as_object().is_none_or(|it| {
                expected_items().all(|name| it.contains_key(name.as_str().unwrap()))
            }),
            "properties" => {
                for (name, schema) in expected.as_object().unwrap() {
                    let outcome = value.get(name).map(|it| self.check(schema, it)).transpose();
                    outcome.map_err(|it| format!("{name}: {it}"))?;
                }
                true
            }
            "additionalProperties" => {
                return self.check_additional_properties(schema, expected, value);
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    self.check(expected, item)?;
                }
                true
            }
            "pattern" => {
                value.as_str().is_none_or(|it| matches_pattern(expected.as_str().unwrap(), it))
            }
            "format" => value.as_str().is_none_or(|it| has_format(expected.as_str().unwrap(), it)),
            "minLength" => at_least(char_count().map(to_u64)),
            "maxLength" => at_most(char_count().map(to_u64)),
            "minItems" => at_least(item_count().map(to_u64)),
            "maxItems" => at_most(item_count().map(to_u64)),
            "maxProperties" => at_most(value.as_object().map(|it| to_u64(it.len()))),
            "minimum" => at_least(value.as_u64()),
            "maximum" => at_most(value.as_u64()),
            unknown => unreachable!("the keyword {unknown} is not supported"),
        })
    }

    fn check_additional_properties(
        &self,
        schema: &Value,
        expected: &'static Value,
        value: &Value,
    ) -> Result<bool, String> {
        let is_described = |name: &str| schema["properties"].get(name).is_some();
        let undescribed = value.as_object().into_iter().flatten().filter(|it| !is_described(it.0));
        for (name, value) in undescribed {
            if *expected == false {
                return Err(format!("{name} is not documented"));
            }
            self.check(expected, value).map_err(|it| format!("{name}: {it}"))?;
        }
        Ok(true)
    }
}

fn has_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => unreachable!("the type {unknown} is not supported"),
    }
}

fn has_format(format: &str, text: &str) -> bool {
    match format {
        "uuid" => Uuid::try_parse(text).is_ok() && text.len() == 36,
        // The format that the server writes: UTC, with a precision of one second.
        "date-time" => {
            matches_pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$", text)
        }
        // Described in prose, and checked by the tests of each format.
        "card-number" | "routing-number" | "token-query" | "token-query-v1" => true,
        unknown => unreachable!("the format {unknown} is not supported"),
    }
}

/// Whether this pattern of the document matches anywhere in a text.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let regex =
        compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).expect(pattern));
    regex.is_match(text)
}
