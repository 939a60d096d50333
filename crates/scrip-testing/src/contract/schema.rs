//! The part of JSON Schema that the document uses. Any other keyword is an error, not a guess.

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
    #[must_use]
    pub fn new(document: &'static Value) -> Self {
        Self { document }
    }

    /// The value that a reference leads to; any other value is itself.
    #[must_use]
    pub fn resolve(&self, value: &'static Value) -> &'static Value {
        let Some(pointer) = value["$ref"].as_str() else { return value };
        let target = self.document.pointer(pointer.strip_prefix('#').unwrap_or(pointer));
        target.unwrap_or_else(|| panic!("{pointer} leads nowhere"))
    }

    /// Whether a value meets a schema.
    ///
    /// # Errors
    ///
    /// It does not, and the text says why.
    pub fn check(&self, schema: &'static Value, value: &Value) -> Result<(), String> {
        let schema = self.resolve(schema);
        for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
            if !self.check_keyword(schema, keyword, wanted, value)? {
                return Err(format!("{keyword}: {wanted} but {value}"));
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
        let chars = || value.as_str().map(|it| it.chars().count());
        let entries = || value.as_array().map(Vec::len);
        let whole = |it: usize| u64::try_from(it).unwrap();
        let at_least = |it: Option<u64>| it.is_none_or(|it| it >= expected.as_u64().unwrap());
        let at_most = |it: Option<u64>| it.is_none_or(|it| it <= expected.as_u64().unwrap());
        let list = || expected.as_array().unwrap().iter();
        Ok(match keyword {
            "description" | "title" | "default" | "examples" => true,
            "type" => match expected.as_str() {
                Some(kind) => has_type(value, kind),
                None => list().any(|it| has_type(value, it.as_str().unwrap())),
            },
            "not" => self.check(expected, value).is_err(),
            "enum" => list().any(|it| it == value),
            "const" => expected == value,
            "anyOf" => list().any(|it| self.check(it, value).is_ok()),
            "oneOf" => list().filter(|it| self.check(it, value).is_ok()).count() == 1,
            "required" => value
                .as_object()
                .is_none_or(|it| list().all(|name| it.contains_key(name.as_str().unwrap()))),
            "properties" => {
                for (name, schema) in expected.as_object().unwrap() {
                    let checked = value.get(name).map(|it| self.check(schema, it)).transpose();
                    checked.map_err(|it| format!("{name}: {it}"))?;
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
            "minLength" => at_least(chars().map(whole)),
            "maxLength" => at_most(chars().map(whole)),
            "minItems" => at_least(entries().map(whole)),
            "maxItems" => at_most(entries().map(whole)),
            "maxProperties" => at_most(value.as_object().map(|it| whole(it.len()))),
            "minimum" => at_least(value.as_u64()),
            "maximum" => at_most(value.as_u64()),
            other => unreachable!("the keyword {other} is not known here"),
        })
    }

    fn check_additional_properties(
        &self,
        schema: &Value,
        expected: &'static Value,
        value: &Value,
    ) -> Result<bool, String> {
        let described = |name: &str| schema["properties"].get(name).is_some();
        let other = value.as_object().into_iter().flatten().filter(|it| !described(it.0));
        for (name, value) in other {
            if *expected == false {
                return Err(format!("{name} is not described"));
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
        other => unreachable!("the type {other} is not known here"),
    }
}

fn has_format(format: &str, text: &str) -> bool {
    match format {
        "uuid" => Uuid::try_parse(text).is_ok() && text.len() == 36,
        // As the server writes it: to the second, in UTC.
        "date-time" => {
            matches_pattern(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00$", text)
        }
        // Said in words, and checked by the tests of each.
        "card-number" | "routing-number" | "token-query" | "token-query-v1" => true,
        other => unreachable!("the format {other} is not known here"),
    }
}

/// Whether a text has a place where this pattern of the document fits.
#[must_use]
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let regex =
        compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).expect(pattern));
    regex.is_match(text)
}
