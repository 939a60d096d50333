//! Strict JSON: no duplicate names, bounded depth and memory, numbers as written. An error names
//! the rule and the position, never the input.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use zeroize::Zeroize;

/// The parser represents a number that fits no integer type as a map with this single name, to
/// avoid rounding. Input must not contain the name, because such an object would be read as a
/// number.
const NUMBER_MARKER: &str = "$serde_json::private::Number";

/// Approximate memory of a parsed value, including allocator overhead.
const VALUE_BYTES: usize = 32;
const ALLOCATION_BYTES: usize = 16;
/// A node of an object's B-tree has up to eleven properties, about six on average in large objects.
const NODE_BYTES: usize = 640;
const NODE_PROPERTIES: usize = 6;

/// The limits of a parsed text.
#[derive(Debug, Clone, Copy)]
pub struct JsonLimits {
    pub depth_max: usize,
    /// The approximate memory limit of the parsed value.
    pub memory_max: usize,
}

/// Why a text is rejected, and the position of the violation.
#[derive(Debug, PartialEq, Eq)]
pub struct StrictJsonError {
    pub rule: JsonRule,
    pub position: Option<JsonPosition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonPosition {
    pub line: usize,
    pub column: usize,
}

/// The violated rule.
#[derive(Debug, PartialEq, Eq)]
pub enum JsonRule {
    Syntax,
    /// A duplicate name in one object. The name is text of the sender: compare it, but do not
    /// output it.
    Duplicate(String),
    TooDeep,
    ReservedName,
    TooMuchMemory,
}

/// Parses the whole text as one value.
/// Errors: the first violated rule.
pub fn parse(text: &str, limits: JsonLimits) -> Result<Value, StrictJsonError> {
    if text.contains(NUMBER_MARKER) {
        return Err(StrictJsonError { rule: JsonRule::ReservedName, position: None });
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let (memory_left, broken_rule) = (Cell::new(limits.memory_max), Cell::new(None));
    let (depth_left, memory_left, broken_rule) = (limits.depth_max, &memory_left, &broken_rule);
    let result =
        StrictVisitor { depth_left, memory_left, broken_rule }.deserialize(&mut deserializer);
    let result = result.and_then(|mut value| {
        deserializer.end().inspect_err(|_| wipe(&mut value))?;
        Ok(value)
    });
    result.map_err(|error: serde_json::Error| StrictJsonError {
        rule: broken_rule.take().unwrap_or(JsonRule::Syntax),
        position: Some(JsonPosition { line: error.line(), column: error.column() }),
    })
}

/// Overwrites text. Numbers inside the library cannot be overwritten, but no secret is a number.
pub fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(object) => object.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// An object that cannot be printed and is wiped when dropped, also after a parse error.
#[derive(Default, PartialEq)]
pub struct WipedObject(pub Map<String, Value>);

impl Drop for WipedObject {
    fn drop(&mut self) {
        self.0.values_mut().for_each(wipe);
    }
}

impl fmt::Debug for WipedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WipedObject")
    }
}

#[derive(Clone, Copy)]
struct StrictVisitor<'m> {
    depth_left: usize,
    memory_left: &'m Cell<usize>,
    /// The violated rule. The parser's own error contains only the position.
    broken_rule: &'m Cell<Option<JsonRule>>,
}

impl StrictVisitor<'_> {
    fn reject<E: Error>(self, rule: JsonRule) -> E {
        self.broken_rule.set(Some(rule));
        E::custom("rejected")
    }

    fn reserve<E: Error>(self, bytes: usize) -> Result<(), E> {
        let remaining = self.memory_left.get().checked_sub(bytes);
        self.memory_left.set(remaining.ok_or_else(|| self.reject::<E>(JsonRule::TooMuchMemory))?);
        Ok(())
    }

    fn descend<E: Error>(self) -> Result<Self, E> {
        let depth_left = self.depth_left.checked_sub(1);
        let depth_left = depth_left.ok_or_else(|| self.reject::<E>(JsonRule::TooDeep))?;
        Ok(Self { depth_left, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for StrictVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.reserve(VALUE_BYTES)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictVisitor<'_> {
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

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.reserve(value.len().saturating_add(ALLOCATION_BYTES))?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let child = self.descend()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(child)? {
            array.push(item);
        }
        // A list with one item has capacity for four.
        array.shrink_to_fit();
        self.reserve(ALLOCATION_BYTES)?;
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = WipedObject::default();
        let Some(mut name) = entries.next_key_seed(NameSeed(self))? else {
            self.descend::<A::Error>()?;
            return Ok(Value::Object(Map::new()));
        };
        if let ObjectName::Number = name {
            let text: String = entries.next_value()?;
            let number: Number = text.parse().map_err(A::Error::custom)?;
            return Ok(Value::Number(number));
        }
        let child = self.descend()?;
        loop {
            let ObjectName::Plain(text) = name else {
                return Err(self.reject(JsonRule::ReservedName));
            };
            if object.0.len().is_multiple_of(NODE_PROPERTIES) {
                self.reserve(NODE_BYTES)?;
            }
            self.reserve(text.len().saturating_add(ALLOCATION_BYTES))?;
            let value = entries.next_value_seed(child)?;
            if object.0.contains_key(&text) {
                return Err(self.reject(JsonRule::Duplicate(text)));
            }
            object.0.insert(text, value);
            match entries.next_key_seed(NameSeed(self))? {
                Some(next) => name = next,
                None => return Ok(Value::Object(std::mem::take(&mut object.0))),
            }
        }
    }
}

/// Reads a name. The parser passes the name of a number as a borrowed string. A name without
/// escapes is borrowed too, but [`parse`] has excluded the marker there. A name with escapes is
/// passed as a copy.
struct NameSeed<'m>(StrictVisitor<'m>);

enum ObjectName {
    Plain(String),
    Number,
}

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = ObjectName;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ObjectName, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for NameSeed<'_> {
    type Value = ObjectName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<ObjectName, E> {
        Ok(if name == NUMBER_MARKER {
            ObjectName::Number
        } else {
            ObjectName::Plain(name.to_owned())
        })
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ObjectName, E> {
        if name == NUMBER_MARKER {
            return Err(self.0.reject(JsonRule::ReservedName));
        }
        Ok(ObjectName::Plain(name.to_owned()))
    }
}
