//! A message's JSON, read strictly: bounded in bytes and depth, no name twice, and wiped when
//! dropped, because a card number may be in it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use zeroize::Zeroize;

/// No message of ours is deeper than five; extensions and broadcast information have the rest.
pub(crate) const DEPTH_MAX: usize = 16;

/// How the parser hands over a number that no integer holds. Nobody may write that name.
const NUMBER: &str = "$serde_json::private::Number";

const DUPLICATE: &str = "duplicate name: ";
const TOO_DEEP: &str = "nested too deeply";
const RESERVED: &str = "reserved name";

/// Why bytes are no JSON of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    Malformed,
    /// A name stands twice in one object. It is the sender's text: to be compared, not to be shown.
    Duplicate(String),
}

/// A JSON object that cannot be printed and is wiped when dropped.
#[derive(Default, PartialEq)]
pub(crate) struct Plain(pub(crate) Map<String, Value>);

impl Drop for Plain {
    fn drop(&mut self) {
        self.0.values_mut().for_each(wipe);
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

/// Texts are overwritten; numbers cannot be reached inside the library, and no secret is one.
fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(object) => object.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// One object, and nothing after it.
pub(crate) fn read(bytes: &[u8]) -> Result<Plain, Unread> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unread::Malformed)?;
    if text.contains(NUMBER) {
        return Err(Unread::Malformed);
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut deserializer);
    match value {
        Ok(Value::Object(object)) => {
            let plain = Plain(object);
            deserializer.end().map(|()| plain).map_err(|_| Unread::Malformed)
        }
        Ok(mut other) => {
            wipe(&mut other);
            Err(Unread::Malformed)
        }
        Err(error) => Err(reason(&error.to_string())),
    }
}

fn reason(text: &str) -> Unread {
    let Some(rest) = text.strip_prefix(DUPLICATE) else { return Unread::Malformed };
    // The library appends where it was; the name itself is between the first and the last quote.
    let name = rest.strip_prefix('"').and_then(|it| it.rsplit_once('"')).map(|(name, _)| name);
    Unread::Duplicate(name.unwrap_or_default().to_owned())
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(Self { depth: self.depth.saturating_add(1) })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(deeper)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        // What is given up half read is wiped as well.
        let mut object = Plain::default();
        while let Some(name) = entries.next_key::<String>()? {
            if name == NUMBER {
                // Only the parser's own: `read` has refused the text that holds this name, and an
                // escaped spelling of it is caught here by the number not being alone or valid.
                let text: String = entries.next_value()?;
                let number: Number = text.parse().map_err(|_| A::Error::custom(RESERVED))?;
                return Ok(Value::Number(number));
            }
            let deeper = self.deeper()?;
            let value = entries.next_value_seed(deeper)?;
            if object.0.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("{DUPLICATE}\"{name}\"")));
            }
        }
        self.deeper::<A::Error>()?;
        Ok(Value::Object(std::mem::take(&mut object.0)))
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
