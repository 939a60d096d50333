//! Strict JSON: no duplicate names, bounded depth, numbers as they were written. An error tells
//! the rule and the place, never the input.

use std::{cell::Cell, fmt};

use scrip_core::plain::Plain;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::Problem;

const DEPTH_MAX: usize = 32;

/// How the parser hands over a number that no integer holds, without rounding it: as a map with this one name. No client
/// may write that name, or its object would pass for a number.
const NUMBER: &str = "$serde_json::private::Number";

const DUPLICATE: &str = "a name stands twice in one object";
const TOO_DEEP: &str = "the JSON is nested deeper than 32 levels";
const RESERVED: &str = "a name in the JSON is reserved";
const TOO_DENSE: &str = "the JSON has too many values for its size";

/// Parsed JSON may take this many times the bytes of its text in memory, and a megabyte besides. A
/// text of small objects would take a hundred times its size.
const MEMORY_PER_BYTE: usize = 32;
const MEMORY_FREE: usize = 1024 * 1024;
/// What parts of a parsed value take in memory, about, with what the allocator adds.
const VALUE_BYTES: usize = 32;
const ALLOCATION_BYTES: usize = 16;
/// A node of an object's tree holds up to eleven properties, and about six when there are many.
const NODE_BYTES: usize = 640;
const NODE_PROPERTIES: usize = 6;

/// The whole body as one value.
pub fn read(body: &[u8]) -> Result<Plain, Problem> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::Malformed("the body is not UTF-8 text".to_owned()))?;
    if text.contains(NUMBER) {
        return Err(Problem::Malformed(RESERVED.to_owned()));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let memory_left = text.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_FREE);
    let memory_left = Cell::new(memory_left);
    let strict = Strict { depth: 0, memory_left: &memory_left };
    let value = strict.deserialize(&mut deserializer).and_then(|value| {
        let value = Plain::new(value);
        deserializer.end().map(|()| value)
    });
    value.map_err(|error| Problem::Malformed(rule(&error)))
}

/// The parser's own message may quote the input; ours are constants.
fn rule(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let known =
        [DUPLICATE, TOO_DEEP, RESERVED, TOO_DENSE].into_iter().find(|it| text.starts_with(it));
    let rule = known.unwrap_or("the body is not valid JSON");
    format!("{rule} (line {}, column {})", error.line(), error.column())
}

#[derive(Clone, Copy)]
struct Strict<'m> {
    depth: usize,
    memory_left: &'m Cell<usize>,
}

impl Strict<'_> {
    fn reserve<E: serde::de::Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.memory_left.get().checked_sub(bytes);
        self.memory_left.set(left.ok_or_else(|| E::custom(TOO_DENSE))?);
        Ok(())
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEPTH_MAX {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(Self { depth: self.depth.saturating_add(1), ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.reserve(VALUE_BYTES)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
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

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.reserve(value.len().saturating_add(ALLOCATION_BYTES))?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(deeper)? {
            array.push(item);
        }
        // A list of one item has room for four.
        array.shrink_to_fit();
        self.reserve(ALLOCATION_BYTES)?;
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let Some(mut name) = entries.next_key_seed(Name)? else {
            self.deeper::<A::Error>()?;
            return Ok(Value::Object(object));
        };
        if let NameRead::Number = name {
            let text: String = entries.next_value()?;
            let number: Number = text.parse().map_err(A::Error::custom)?;
            return Ok(Value::Number(number));
        }
        let deeper = self.deeper()?;
        loop {
            let NameRead::Plain(text) = name else { return Err(A::Error::custom(RESERVED)) };
            if object.len().is_multiple_of(NODE_PROPERTIES) {
                self.reserve(NODE_BYTES)?;
            }
            self.reserve(text.len().saturating_add(ALLOCATION_BYTES))?;
            let value = entries.next_value_seed(deeper)?;
            if object.insert(text, value).is_some() {
                return Err(A::Error::custom(DUPLICATE));
            }
            match entries.next_key_seed(Name)? {
                Some(next) => name = next,
                None => return Ok(Value::Object(object)),
            }
        }
    }
}

/// A name as it came: a number's is lent by the parser, and so is one that stands in the text as
/// it is, which [`read`] has ruled out. One written with escapes is a copy.
struct Name;

enum NameRead {
    Plain(String),
    Number,
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = NameRead;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NameRead, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = NameRead;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<NameRead, E> {
        Ok(if name == NUMBER { NameRead::Number } else { NameRead::Plain(name.to_owned()) })
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<NameRead, E> {
        if name == NUMBER {
            return Err(E::custom(RESERVED));
        }
        Ok(NameRead::Plain(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str) {
        let value = read(text.as_bytes()).map(Plain::into_exposed);
        assert_eq!(value.unwrap().to_string(), text);
    }

    #[track_caller]
    fn refuse(text: &str, expected: &str) {
        match read(text.as_bytes()) {
            Err(Problem::Malformed(rule)) => assert!(rule.starts_with(expected), "{rule}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_come_back_as_they_went_in() {
        check("12345678901234567890123");
        check("-0.1000");
        check("1e+400");
        check(r#"{"a":[1,2.50,null,true],"b":{"c":"\" é"}}"#);
        check("[]");
        check("{}");
        check(r#""text""#);
    }

    #[test]
    fn refused() {
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
            refuse(text, invalid);
        }
        refuse(r#"{"a":1,"b":{"c":1,"c":2}}"#, DUPLICATE);
        refuse(r#"{"a":1,"\u0061":2}"#, DUPLICATE);
        refuse(&format!("{}{}", "[".repeat(33), "]".repeat(33)), TOO_DEEP);
        refuse(&"[".repeat(100_000), TOO_DEEP);
        refuse(&format!("{}{{}}{}", "[".repeat(32), "]".repeat(32)), TOO_DEEP);
        assert!(read(&[b'"', 0xff, b'"']).is_err());
    }

    #[test]
    fn an_object_cannot_pass_for_a_number() {
        refuse(r#"{"$serde_json::private::Number":"12"}"#, RESERVED);
        refuse(r#"{"\u0024serde_json::private::Number":"12"}"#, RESERVED);
        refuse(r#"{"a":1,"\u0024serde_json::private::Number":"12"}"#, RESERVED);
    }

    #[test]
    fn parsed_values_are_bounded_by_the_size_of_their_text() {
        let repeated = |item: &str, bytes: usize| {
            format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","))
        };
        for dense in [r#"{"a":0}"#, r#"{"":[]}"#, "[{}]", "[[[0]]]"] {
            let text = repeated(dense, 1_000_000);
            let bounded = matches!(dense, "[{}]" | "[[[0]]]");
            match read(text.as_bytes()) {
                Ok(_) => assert!(bounded, "{dense}"),
                Err(Problem::Malformed(rule)) => assert!(rule.starts_with(TOO_DENSE), "{rule}"),
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
    fn depth_is_counted_exactly() {
        check(&format!("{}{}", "[".repeat(32), "]".repeat(32)));
    }
}
