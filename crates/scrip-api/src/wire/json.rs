//! Strict JSON parsing: no duplicate names, limited depth, numbers as written. An error states the
//! rule and the position, never the input.

use scrip_core::types::{
    Plaintext,
    plaintext::{VALUES_MAX, count_values},
};
use scrip_types::strict_json::{self, JsonLimits, JsonRule, StrictJsonError};

use crate::wire::ParseError;

const DEPTH_MAX: usize = 32;

const DUPLICATE: &str = "an object has a duplicate name";
const TOO_DEEP: &str = "the JSON is nested deeper than 32 levels";
const RESERVED: &str = "a name in the JSON is reserved";
const TOO_DENSE: &str = "the JSON has too many values for its size";

/// Parsed JSON may use this many times the length of its text in memory, plus one megabyte. Without
/// the limit, a text of small objects would use a hundred times its length.
const MEMORY_PER_BYTE: usize = 32;
const MEMORY_BASE: usize = 1024 * 1024;
const TOO_MANY: &str = "the JSON has more than 100,000 values";

/// Parses the whole body as one value.
/// Errors: the violated rule and its position.
pub fn read(body: &[u8]) -> Result<Plaintext, ParseError> {
    let text = std::str::from_utf8(body)
        .map_err(|_| ParseError::Malformed("the body is not UTF-8 text".to_owned()))?;
    let memory_max = text.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_BASE);
    let result = strict_json::parse(text, JsonLimits { depth_max: DEPTH_MAX, memory_max });
    let value = result.map_err(|it| ParseError::Malformed(explain(&it)))?;
    let value = Plaintext::new(value);
    if count_values(value.expose(), VALUES_MAX).is_none() {
        return Err(ParseError::Malformed(TOO_MANY.to_owned()));
    }
    Ok(value)
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
        Some(position) => format!("{rule} (line {}, column {})", position.line, position.column),
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
            result => panic!("{result:?}"),
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
        let repeat = |item: &str, bytes: usize| {
            format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","))
        };
        for item in [r#"{"a":0}"#, r#"{"":[]}"#, "[{}]", "[[[0]]]"] {
            let text = repeat(item, 1_000_000);
            // The memory of these fits, and their number does not.
            let has_small_values = matches!(item, "[{}]" | "[[[0]]]");
            check_rejected(&text, if has_small_values { TOO_MANY } else { TOO_DENSE });
            // A small body may be dense.
            assert!(read(repeat(item, 10_000).as_bytes()).is_ok(), "{item}");
        }
        for item in ["0", "\"x\"", "[[],[]]"] {
            check_rejected(&repeat(item, 1_000_000), TOO_MANY);
            assert!(read(repeat(item, 190_000).as_bytes()).is_ok(), "{item}");
        }
        let tokens = repeat(r#"{"type":"token","data":"x"}"#, 900_000);
        assert!(read(tokens.as_bytes()).is_ok());
    }

    #[test]
    fn maximum_depth_is_accepted() {
        check_accepted(&format!("{}{}", "[".repeat(32), "]".repeat(32)));
    }
}
