//! An answer as a caller sees it, with random values renamed by first occurrence.

use std::{collections::HashMap, fmt};

use serde_json::Value;
use uuid::Uuid;

/// Headers that an attacker could learn from. The trace id is the test's own.
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

/// What a caller sees of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.status, self.headers, self.body)
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
                let random = matches!(name, Some("fingerprint" | "next" | "nonce" | "session_key"));
                if random {
                    self.numbered_name(text).into()
                } else {
                    self.rename_words(text).into()
                }
            }
            Value::Array(items) => items.iter().map(|it| self.rename(None, it)).collect(),
            Value::Object(object) => {
                let pair =
                    |(name, it): (&String, &Value)| (name.clone(), self.rename(Some(name), it));
                Value::Object(object.iter().map(pair).collect())
            }
        }
    }

    fn numbered_name(&mut self, text: &str) -> String {
        let next = self.0.len();
        format!("[{}]", self.0.entry(text.to_owned()).or_insert(next))
    }

    /// A text with the random words in it renamed. Ids that are computed stay: they must be equal.
    fn rename_words(&mut self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let is_word = |it: char| it.is_ascii_alphanumeric() || it == '-';
            let end = rest.find(|it| !is_word(it)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if self.0.contains_key(word) || Uuid::try_parse(word).is_ok() {
                renamed.push_str(&self.numbered_name(word));
            } else {
                renamed.push_str(word);
            }
            let separator = after.chars().next();
            renamed.extend(separator);
            rest = separator.map_or("", |it| &after[it.len_utf8()..]);
        }
        renamed
    }
}
