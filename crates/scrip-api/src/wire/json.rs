//! The JSON of a body, read strictly: no duplicate names, bounded depth, numbers as they were
//! written. An error tells the rule and the place, never the input.

use scrip_core::token::Plaintext;
use scrip_threeds::strict_json::{self, JsonLimits, JsonRule, StrictJsonError};

use crate::wire::ParseError;

const DEPTH_MAX: usize = 32;

const DUPLICATE: &str = "a name stands twice in one object";
const TOO_DEEP: &str = "the JSON is nested deeper than 32 levels";
const RESERVED: &str = "a name in the JSON is reserved";
const TOO_DENSE: &str = "the JSON has too many values for its size";

/// Parsed JSON may take this many times the bytes of its text in memory, and a megabyte besides. A
/// text of small objects would take a hundred times its size.
const MEMORY_PER_BYTE: usize = 32;
const MEMORY_BASE: usize = 1024 * 1024;
/// The whole body as one value.
///
/// # Errors
/// The rule that it breaks.
pub fn read(body: &[u8]) -> Result<Plaintext, ParseError> {
    let text = std::str::from_utf8(body)
        .map_err(|_| ParseError::Malformed("the body is not UTF-8 text".to_owned()))?;
    let memory_max = text.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_BASE);
    let read = strict_json::parse(text, JsonLimits { depth_max: DEPTH_MAX, memory_max });
    read.map(Plaintext::new).map_err(|it| ParseError::Malformed(explain(&it)))
}

fn explain(rejection: &StrictJsonError) -> String {
    let rule = match rejection.rule {
        JsonRule::Syntax => "the body is not valid JSON",
        JsonRule::Duplicate(_) => DUPLICATE,
        JsonRule::TooDeep => TOO_DEEP,
        JsonRule::ReservedName => RESERVED,
        JsonRule::TooMuchMemory => TOO_DENSE,
    };
    match rejection.position {
        Some(place) => format!("{rule} (line {}, column {})", place.line, place.column),
        None => rule.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_accepted(text: &str) {
        let value = read(text.as_bytes()).map(Plaintext::into_exposed);
        assert_eq!(value.unwrap().to_string(), text);
    }

    #[track_caller]
    fn check_rejected(text: &str, expected: &str) {
        match read(text.as_bytes()) {
            Err(ParseError::Malformed(rule)) => assert!(rule.starts_with(expected), "{rule}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn json_values_survive_parsing_unchanged() {
        check_accepted("12345678901234567890123");
        check_accepted("-0.1000");
        check_accepted("1e+400");
        check_accepted(r#"{"a":[1,2.50,null,true],"b":{"c":"\" é"}}"#);
        check_accepted("[]");
        check_accepted("{}");
        check_accepted(r#""text""#);
    }

    #[test]
    fn invalid_json_is_rejected_with_the_rule() {
        let invalid = "the body is not valid JSON (line 1, column ";
        for text in [
            "",
            "{",
            "nul",
            "01",
            "{'a':1}",
            "[1,]",
            "1 2",
            "\"\\ud800\"",
            "{\"a\" 4242424242424242}",
        ] {
            check_rejected(text, invalid);
        }
        check_rejected(r#"{"a":1,"b":{"c":1,"c":2}}"#, DUPLICATE);
        check_rejected(r#"{"a":1,"\u0061":2}"#, DUPLICATE);
        check_rejected(&format!("{}{}", "[".repeat(33), "]".repeat(33)), TOO_DEEP);
        check_rejected(&"[".repeat(100_000), TOO_DEEP);
        check_rejected(&format!("{}{{}}{}", "[".repeat(32), "]".repeat(32)), TOO_DEEP);
        assert!(read(&[b'"', 0xff, b'"']).is_err());
    }

    #[test]
    fn object_with_the_private_number_key_is_rejected() {
        check_rejected(r#"{"$serde_json::private::Number":"12"}"#, RESERVED);
        check_rejected(r#"{"\u0024serde_json::private::Number":"12"}"#, RESERVED);
        check_rejected(r#"{"a":1,"\u0024serde_json::private::Number":"12"}"#, RESERVED);
    }

    #[test]
    fn parsed_size_is_limited_by_text_size() {
        let repeated = |item: &str, bytes: usize| {
            format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","))
        };
        for dense in [r#"{"a":0}"#, r#"{"":[]}"#, "[{}]", "[[[0]]]"] {
            let text = repeated(dense, 1_000_000);
            let bounded = matches!(dense, "[{}]" | "[[[0]]]");
            match read(text.as_bytes()) {
                Ok(_) => assert!(bounded, "{dense}"),
                Err(ParseError::Malformed(rule)) => assert!(rule.starts_with(TOO_DENSE), "{rule}"),
                Err(other) => panic!("{other:?}"),
            }
            // A small body may be as dense as it likes.
            assert!(read(repeated(dense, 10_000).as_bytes()).is_ok(), "{dense}");
        }
        for usual in ["0", "\"x\"", r#"{"type":"token","data":"x"}"#, "[[],[]]"] {
            assert!(read(repeated(usual, 1_000_000).as_bytes()).is_ok(), "{usual}");
        }
    }

    #[test]
    fn maximum_depth_is_accepted() {
        check_accepted(&format!("{}{}", "[".repeat(32), "]".repeat(32)));
    }
}
