//! A response as a caller sees it. Random values are renamed by first occurrence.

use std::{collections::HashMap, fmt};

use axum::http::HeaderMap;
use serde_json::Value;
use uuid::Uuid;

/// Headers that are different in every response, or depend on the length of random values.
const IGNORED_HEADERS: [&str; 3] = ["content-length", "bt-trace-id", "date"];

/// Attributes with random values.
const RANDOM_ATTRIBUTES: [&str; 8] =
    ["fingerprint", "next", "nonce", "session_key", "key", "key_id", "secret", "public_key_pem"];

/// Whether a text is the id of a log record. Engines keep the records of earlier sequences, which may
/// have had different numbers of requests that are not compared.
fn is_record_id(text: &str) -> bool {
    ["audit-", "read-"].iter().any(|it| text.starts_with(it))
}

/// The length of the id of an access session, which is a digest of its random key.
const SESSION_ID_LENGTH: usize = 64;

/// Whether a word has the form of a fingerprint. Hidden data has no such words.
fn is_fingerprint(word: &str) -> bool {
    (42..=44).contains(&word.len())
        && word.contains(|it: char| it.is_ascii_uppercase())
        && word.contains(|it: char| it.is_ascii_lowercase())
}

/// Whether digits are part of what a destination may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceivedDigits {
    Compared,
    Hidden,
}

/// The visible parts of a response, and what a destination received.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, Value)>,
    pub(crate) body: Value,
    pub(crate) received: Vec<Value>,
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        let mut headers = self.headers.iter().filter(|it| !it.0.starts_with("access-control"));
        headers.try_for_each(|(name, value)| write!(f, ", {name}: {value}"))?;
        write!(f, ", body {}", self.body)?;
        self.received.iter().try_for_each(|it| write!(f, ", received {it}"))
    }
}

/// The random values of one vault, numbered by first occurrence.
#[derive(Debug, Default)]
pub(crate) struct RandomValueNames(HashMap<String, usize>);

impl RandomValueNames {
    pub(crate) fn observe(
        &mut self,
        status: u16,
        headers: &HeaderMap,
        body: &Value,
        received: &[Value],
        digits: ReceivedDigits,
    ) -> Observation {
        let is_observed = |name: &str| !IGNORED_HEADERS.contains(&name);
        let headers = headers.iter().filter(|it| is_observed(it.0.as_str()));
        let headers = headers.map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), self.rename(None, &text.into()))
        });
        let headers = headers.collect();
        let body = self.rename(None, body);
        let mut received: Vec<_> = received.iter().map(|it| self.rename(None, it)).collect();
        if digits == ReceivedDigits::Hidden {
            received.iter_mut().for_each(hide_digits);
        }
        Observation { status, headers, body, received }
    }

    fn rename(&mut self, name: Option<&str>, value: &Value) -> Value {
        match value {
            // The duration of a request is not compared.
            Value::Number(_) if name == Some("elapsed_ms") => Value::Null,
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => {
                let is_session = name == Some("id") && text.len() == SESSION_ID_LENGTH;
                let is_record = name == Some("id") && is_record_id(text);
                if is_session || is_record || name.is_some_and(|it| RANDOM_ATTRIBUTES.contains(&it))
                {
                    self.numbered_name(text).into()
                } else {
                    self.rename_words(text).into()
                }
            }
            Value::Array(items) => items.iter().map(|it| self.rename(None, it)).collect(),
            Value::Object(object) => {
                let rename_member =
                    |(name, it): (&String, &Value)| (name.clone(), self.rename(Some(name), it));
                Value::Object(object.iter().map(rename_member).collect())
            }
        }
    }

    fn numbered_name(&mut self, text: &str) -> String {
        let next = self.0.len();
        format!("[{}]", self.0.entry(text.to_owned()).or_insert(next))
    }

    /// Renames the random words in a text. Computed ids are not renamed, because they must be equal
    /// in both vaults.
    fn rename_words(&mut self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut remaining = text;
        while !remaining.is_empty() {
            let is_word = |it: char| it.is_ascii_alphanumeric() || it == '-';
            let word_end = remaining.find(|it| !is_word(it)).unwrap_or(remaining.len());
            let (word, after_word) = remaining.split_at(word_end);
            let is_random = Uuid::try_parse(word).is_ok() || is_fingerprint(word);
            if is_random || self.0.contains_key(word) {
                renamed.push_str(&self.numbered_name(word));
            } else {
                renamed.push_str(word);
            }
            let separator = after_word.chars().next();
            renamed.extend(separator);
            remaining = separator.map_or("", |it| &after_word[it.len_utf8()..]);
        }
        renamed
    }
}

/// Replaces the digits of all texts, numbers and names.
fn hide_digits(value: &mut Value) {
    let hide = |text: &str| text.replace(|it: char| it.is_ascii_digit(), "#");
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => *value = number.to_string().into(),
        Value::String(text) => *text = hide(text),
        Value::Array(items) => items.iter_mut().for_each(hide_digits),
        Value::Object(object) => {
            object.values_mut().for_each(hide_digits);
            *object = object.iter().map(|(name, it)| (hide(name), it.clone())).collect();
        }
    }
}
