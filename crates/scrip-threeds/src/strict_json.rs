//! Strict JSON: no name twice in an object, bounded depth and memory, numbers as they were written.
//! A refusal tells the rule and the place, never the input.

use std::{cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use zeroize::Zeroize;

/// How the parser hands over a number that no integer holds, without rounding it: as a map with this
/// one name. No sender may write that name, or its object would pass for a number.
const NUMBER_MARKER: &str = "$serde_json::private::Number";

/// What parts of a parsed value take in memory, about, with what the allocator adds.
const VALUE_BYTES: usize = 32;
const ALLOCATION_BYTES: usize = 16;
/// A node of an object's tree holds up to eleven properties, and about six when there are many.
const NODE_BYTES: usize = 640;
const NODE_PROPERTIES: usize = 6;

/// How much is read.
#[derive(Debug, Clone, Copy)]
pub struct JsonLimits {
    pub depth_max: usize,
    /// What the parsed value may take in memory, about.
    pub memory_max: usize,
}

/// Why a text is not read, and where that was seen.
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

/// The rule that a text breaks.
#[derive(Debug, PartialEq, Eq)]
pub enum JsonRule {
    Syntax,
    /// A name stands twice in one object. It is the sender's text: to be compared, not to be shown.
    Duplicate(String),
    TooDeep,
    ReservedName,
    TooMuchMemory,
}

/// The whole text as one value.
///
/// # Errors
/// The first rule that it breaks.
pub fn parse(text: &str, limits: JsonLimits) -> Result<Value, StrictJsonError> {
    if text.contains(NUMBER_MARKER) {
        return Err(StrictJsonError { rule: JsonRule::ReservedName, position: None });
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let (memory_left, broken_rule) = (Cell::new(limits.memory_max), Cell::new(None));
    let (depth_left, memory_left, broken_rule) = (limits.depth_max, &memory_left, &broken_rule);
    let parsed =
        StrictVisitor { depth_left, memory_left, broken_rule }.deserialize(&mut deserializer);
    let parsed = parsed.and_then(|mut value| {
        deserializer.end().inspect_err(|_| wipe(&mut value))?;
        Ok(value)
    });
    parsed.map_err(|error: serde_json::Error| StrictJsonError {
        rule: broken_rule.take().unwrap_or(JsonRule::Syntax),
        position: Some(JsonPosition { line: error.line(), column: error.column() }),
    })
}

/// Texts are overwritten; numbers cannot be reached inside the library, and no secret is one.
pub(crate) fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(items) => items.iter_mut().for_each(wipe),
        Value::Object(object) => object.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// An object that cannot be printed and is wiped when dropped, also when it is given up half read.
#[derive(Default, PartialEq)]
pub(crate) struct WipedObject(pub(crate) Map<String, Value>);

impl Drop for WipedObject {
    fn drop(&mut self) {
        self.0.values_mut().for_each(wipe);
    }
}

impl fmt::Debug for WipedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

#[derive(Clone, Copy)]
struct StrictVisitor<'m> {
    depth_left: usize,
    memory_left: &'m Cell<usize>,
    /// Set by whoever finds it; the parser only tells where.
    broken_rule: &'m Cell<Option<JsonRule>>,
}

impl StrictVisitor<'_> {
    fn reject<E: Error>(self, rule: JsonRule) -> E {
        self.broken_rule.set(Some(rule));
        E::custom("refused")
    }

    fn reserve<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.memory_left.get().checked_sub(bytes);
        self.memory_left.set(left.ok_or_else(|| self.reject::<E>(JsonRule::TooMuchMemory))?);
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
        // A list of one item has room for four.
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

/// A name as it came: a number's is lent by the parser, and so is one that stands in the text as
/// it is, which [`read`] has ruled out. One written with escapes is a copy.
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
