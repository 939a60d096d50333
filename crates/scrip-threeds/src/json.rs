//! Strict parsing of a message's JSON: bounded in size and depth, without duplicate names. The
//! parsed object is wiped when dropped, because it may contain a card number.

pub(crate) use scrip_types::strict_json::WipedObject;
use scrip_types::strict_json::{self, JsonLimits, JsonRule, wipe};
use serde_json::Value;

/// The messages need five levels; extensions and broadcast information may need more.
pub(crate) const DEPTH_MAX: usize = 16;

/// Why bytes are not a valid JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    Malformed,
    /// A duplicate name in one object. The name is text of the sender: compare it, but do not
    /// output it.
    Duplicate(String),
}

/// Parses one object without trailing data.
pub(crate) fn parse_object(bytes: &[u8]) -> Result<WipedObject, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::Malformed)?;
    let limits = JsonLimits { depth_max: DEPTH_MAX, memory_max: usize::MAX };
    match strict_json::parse(text, limits).map_err(|it| it.rule) {
        Ok(Value::Object(object)) => Ok(WipedObject(object)),
        Ok(mut other) => {
            wipe(&mut other);
            Err(JsonError::Malformed)
        }
        Err(JsonRule::Duplicate(name)) => Err(JsonError::Duplicate(name)),
        Err(
            JsonRule::Syntax | JsonRule::TooDeep | JsonRule::ReservedName | JsonRule::TooMuchMemory,
        ) => Err(JsonError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested_object(levels: usize) -> String {
        format!("{}{}", "{\"a\":".repeat(levels - 1) + "{", "}".repeat(levels))
    }

    #[test]
    fn parse_object_preserves_valid_json() {
        for text in ["{}", r#"{"a":[1,-2.50,null,true,1e+400],"b":{"c":"\""}}"#] {
            assert_eq!(
                Value::Object(parse_object(text.as_bytes()).unwrap().0.clone()).to_string(),
                text
            );
        }
        assert!(parse_object(nested_object(DEPTH_MAX).as_bytes()).is_ok());
    }

    #[test]
    fn parse_object_rejects_malformed_reserved_and_deep_json() {
        let escaped = r#"{"a":{"\u0024serde_json::private::Number":"x"}}"#;
        let reserved = r#"{"a":{"$serde_json::private::Number":"1"}}"#;
        let deep = nested_object(DEPTH_MAX + 1);
        for text in ["", "[]", "\"a\"", "{", "{} {}", "{\"a\":1,}", escaped, reserved, &deep] {
            assert_eq!(parse_object(text.as_bytes()), Err(JsonError::Malformed), "{text}");
        }
        assert_eq!(parse_object(b"{\"a\":\"\xff\"}"), Err(JsonError::Malformed));
    }

    #[test]
    fn duplicate_names_are_rejected() {
        let duplicate = |name: &str| Err(JsonError::Duplicate(name.to_owned()));
        assert_eq!(parse_object(br#"{"a":1,"a":1}"#), duplicate("a"));
        assert_eq!(parse_object(br#"{"b":[{"x":1,"\u0078":2}]}"#), duplicate("x"));
    }

    #[test]
    fn debug_output_hides_the_content() {
        assert_eq!(format!("{:?}", parse_object(br#"{"a":"4242"}"#).unwrap()), "WipedObject");
    }
}
