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

/// The replacement of the masks of generated proxies.
const MASK_REPLACEMENT: char = '#';

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

    /// A mask may have replaced digits of a fingerprint: fingerprints are random, so in one vault only.
    fn numbered_name(&mut self, text: &str) -> String {
        let next = self.0.len();
        let text = if is_fingerprint(text) { hide_text_digits(text) } else { text.to_owned() };
        format!("[{}]", self.0.entry(text).or_insert(next))
    }

    /// Renames the random words in a text. Computed ids are not renamed, because they must be equal
    /// in both vaults.
    fn rename_words(&mut self, text: &str) -> String {
        let mut renamed = String::with_capacity(text.len());
        let mut remaining = text;
        while let Some(first) = remaining.chars().next() {
            let word_end = remaining.find(|it| !is_word_character(it)).unwrap_or(remaining.len());
            let (word, after_word) = remaining.split_at(word_end);
            if word.is_empty() {
                let separator = encoded_character(remaining).unwrap_or(first.len_utf8());
                let (separator, after_separator) = remaining.split_at(separator);
                let is_before_fingerprint = is_fingerprint(first_word(after_separator));
                match is_before_fingerprint && separator.starts_with('%') {
                    // A mask took the digits of the separator and of the fingerprint for one number.
                    true => renamed.push_str(&hide_text_digits(separator)),
                    false => renamed.push_str(separator),
                }
                remaining = after_separator;
                continue;
            }
            let is_random = Uuid::try_parse(word).is_ok() || is_fingerprint(word);
            if is_random || self.0.contains_key(word) {
                renamed.push_str(&self.numbered_name(word));
            } else {
                renamed.push_str(word);
            }
            remaining = after_word;
        }
        renamed
    }
}

/// A character of a random value, in which a mask may have replaced digits.
fn is_word_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-' || character == MASK_REPLACEMENT
}

fn first_word(text: &str) -> &str {
    text.split(|it| !is_word_character(it)).next().unwrap_or_default()
}

/// The length of the percent-encoded character at the start of the text, in which a mask may have
/// replaced digits.
fn encoded_character(text: &str) -> Option<usize> {
    let is_digit = |it: &u8| it.is_ascii_hexdigit() || char::from(*it) == MASK_REPLACEMENT;
    let encoded = text.strip_prefix('%')?.as_bytes().get(..2)?;
    encoded.iter().all(is_digit).then_some(1 + encoded.len())
}

fn hide_text_digits(text: &str) -> String {
    let hide = |it: char| if it.is_ascii_digit() { MASK_REPLACEMENT } else { it };
    text.chars().map(hide).collect()
}

/// Replaces the digits of all texts, numbers and names.
fn hide_digits(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => *value = hide_text_digits(&number.to_string()).into(),
        Value::String(text) => *text = hide_text_digits(text),
        Value::Array(items) => items.iter_mut().for_each(hide_digits),
        Value::Object(object) => {
            object.values_mut().for_each(hide_digits);
            *object =
                object.iter().map(|(name, it)| (hide_text_digits(name), it.clone())).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINTS: [&str; 2] = [
        "3ZZAhJvADZaE12GR45hVoHQinhP789bssRkFybJ6xJce",
        "CG5KnXFk7khv5rhTEG8VpErWvRDfJxZWuUA84feFtQn4",
    ];

    /// The texts of one vault, one after the other.
    fn rename_all(texts: &[String]) -> Vec<String> {
        let mut names = RandomValueNames::default();
        texts.iter().map(|it| names.rename_words(it)).collect()
    }

    /// Masks digits as the masks of generated proxies do.
    fn mask_numbers(text: &str) -> String {
        let mut masked = String::new();
        let mut remaining = text;
        while !remaining.is_empty() {
            let is_digit = remaining.starts_with(|it: char| it.is_ascii_digit());
            let end = remaining.find(|it: char| it.is_ascii_digit() != is_digit);
            let (run, rest) = remaining.split_at(end.unwrap_or(remaining.len()));
            let is_masked = is_digit && run.len() >= 3;
            masked.push_str(&if is_masked { hide_text_digits(run) } else { run.to_owned() });
            remaining = rest;
        }
        masked
    }

    #[test]
    fn fingerprint_is_renamed_in_encoded_and_masked_texts() {
        let renamed = FINGERPRINTS.map(|fingerprint| {
            let encoded = format!("%22fingerprint%22%3A%22{fingerprint}%22");
            let masked = mask_numbers(&encoded);
            rename_all(&[fingerprint.to_owned(), mask_numbers(fingerprint), encoded, masked])
        });
        assert_eq!(renamed[0], renamed[1]);
        assert_eq!(renamed[0][..2], ["[0]", "[0]"]);
        assert_eq!(renamed[0][2], "%22fingerprint%22%3A%##[0]%22");
    }

    #[test]
    fn other_texts_are_compared_as_they_are() {
        let texts = ["%22number%22%3A%224242%22", "number=4242&a=%2F", "XXXX4242", "####", "%zz"];
        let texts = texts.map(str::to_owned);
        assert_eq!(rename_all(&texts), texts);
        assert_ne!(rename_all(&["########".to_owned()]), rename_all(&["42424242".to_owned()]));
    }
}
