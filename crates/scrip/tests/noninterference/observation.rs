//! A response as a caller sees it. Random values are renamed by first occurrence.

use std::{collections::HashMap, fmt};

use serde_json::Value;
use uuid::Uuid;

/// Headers that could disclose data to an attacker. The trace id is not in the list, because the
/// test sets it.
const HEADERS: [&str; 9] = [
    "content-type",
    "content-length",
    "retry-after",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "location",
    "connection",
    "www-authenticate",
];

/// The visible parts of a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}, headers {:?}, body {}", self.status, self.headers, self.body)
    }
}

/// The random values of one vault, numbered by first occurrence.
#[derive(Debug, Default)]
pub(crate) struct RandomValueNames(HashMap<String, usize>);

impl RandomValueNames {
    pub(crate) fn observe(
        &mut self,
        status: u16,
        header: impl Fn(&str) -> Option<String>,
        body: &Value,
    ) -> Observation {
        let headers = HEADERS.into_iter().filter_map(|it| Some((it, header(it)?)));
        // Fingerprints and cursors have no fixed length.
        let headers = headers.filter(|(name, _)| *name != "content-length").collect();
        Observation { status, headers, body: self.rename(None, body) }
    }

    fn rename(&mut self, name: Option<&str>, value: &Value) -> Value {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
            Value::String(text) => {
                let is_random =
                    matches!(name, Some("fingerprint" | "next" | "nonce" | "session_key"));
                if is_random {
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
            if self.0.contains_key(word) || Uuid::try_parse(word).is_ok() {
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
