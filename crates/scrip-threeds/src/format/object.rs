//! JSON objects with content that only other parties interpret. Only the size is checked.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    format::{ElementContext, ElementFormat},
    json::WipedObject,
};

/// An object of at most `MAX` characters of JSON. Never printed, wiped when dropped.
#[derive(PartialEq)]
pub struct Object<const MAX: usize>(WipedObject);

impl<const MAX: usize> Object<MAX> {
    /// Returns `None` if the object is too long.
    pub fn new(object: Map<String, Value>) -> Option<Self> {
        let wiped = WipedObject(object);
        (count_characters(&wiped.0) <= MAX).then_some(Self(wiped))
    }

    pub fn expose(&self) -> &Map<String, Value> {
        &self.0.0
    }
}

impl<const MAX: usize> Clone for Object<MAX> {
    fn clone(&self) -> Self {
        Self(WipedObject(self.expose().clone()))
    }
}

impl<const MAX: usize> fmt::Debug for Object<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Object")
    }
}

impl<const MAX: usize> ElementFormat for Object<MAX> {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect(value.as_object().and_then(|it| Self::new(it.clone())))
    }

    fn write(&self) -> Value {
        Value::Object(self.expose().clone())
    }
}

impl<const MAX: usize> serde::Serialize for Object<MAX> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.expose().serialize(serializer)
    }
}

impl<'de, const MAX: usize> serde::Deserialize<'de> for Object<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let object = Map::deserialize(from)?;
        Self::new(object).ok_or_else(|| serde::de::Error::custom("too long"))
    }
}

/// Counts characters, as EMV does, without storing the JSON.
fn count_characters(object: &Map<String, Value>) -> usize {
    let mut counter = CharacterCounter(0);
    // Writing to a counter does not fail; if it did, the object counts as too long.
    let result = serde_json::to_writer(&mut counter, object);
    if result.is_ok() { counter.0 } else { usize::MAX }
}

struct CharacterCounter(usize);

impl std::io::Write for CharacterCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let characters = bytes.iter().filter(|it| (**it & 0xC0) != 0x80).count();
        self.0 = self.0.saturating_add(characters);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
