//! A message's JSON, read strictly: bounded in bytes and depth, no name twice, and wiped when
//! dropped, because a card number may be in it.

use serde_json::Value;

pub(crate) use crate::strict_json::Plain;
use crate::strict_json::{self, Bounds, Rule, wipe};

/// No message of ours is deeper than five; extensions and broadcast information have the rest.
pub(crate) const DEPTH_MAX: usize = 16;

/// Why bytes are no JSON of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Malformed,
    /// A name stands twice in one object. It is the sender's text: to be compared, not to be shown.
    Duplicate(String),
}

/// One object, and nothing after it.
pub(crate) fn read(bytes: &[u8]) -> Result<Plain, Unread> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unread::Malformed)?;
    let bounds = Bounds { depth_max: DEPTH_MAX, memory_max: usize::MAX };
    match strict_json::read(text, bounds).map_err(|it| it.rule) {
        Ok(Value::Object(object)) => Ok(Plain(object)),
        Ok(mut other) => {
            wipe(&mut other);
            Err(Unread::Malformed)
        }
        Err(Rule::Duplicate(name)) => Err(Unread::Duplicate(name)),
        Err(Rule::Syntax | Rule::TooDeep | Rule::Reserved | Rule::TooDense) => {
            Err(Unread::Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "{\"a\":".repeat(levels - 1) + "{", "}".repeat(levels))
    }

    #[test]
    fn what_is_read() {
        for text in ["{}", r#"{"a":[1,-2.50,null,true,1e+400],"b":{"c":"\""}}"#] {
            assert_eq!(Value::Object(read(text.as_bytes()).unwrap().0.clone()).to_string(), text);
        }
        assert!(read(nested(DEPTH_MAX).as_bytes()).is_ok());
    }

    #[test]
    fn what_is_refused() {
        let escaped = r#"{"a":{"\u0024serde_json::private::Number":"x"}}"#;
        let reserved = r#"{"a":{"$serde_json::private::Number":"1"}}"#;
        let deep = nested(DEPTH_MAX + 1);
        for text in ["", "[]", "\"a\"", "{", "{} {}", "{\"a\":1,}", escaped, reserved, &deep] {
            assert_eq!(read(text.as_bytes()), Err(Unread::Malformed), "{text}");
        }
        assert_eq!(read(b"{\"a\":\"\xff\"}"), Err(Unread::Malformed));
    }

    #[test]
    fn a_name_stands_once() {
        let twice = |name: &str| Err(Unread::Duplicate(name.to_owned()));
        assert_eq!(read(br#"{"a":1,"a":1}"#), twice("a"));
        assert_eq!(read(br#"{"b":[{"x":1,"\u0078":2}]}"#), twice("x"));
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", read(br#"{"a":"4242"}"#).unwrap()), "Plain");
    }
}
