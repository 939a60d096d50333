//! JSON objects whose content is between others: only their size is ours to check.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    format::{Format, Place},
    json::Plain,
};

/// An object of at most `MAX` characters of JSON, not printed and wiped when dropped.
#[derive(PartialEq)]
pub struct Object<const MAX: usize>(Plain);

impl<const MAX: usize> Object<MAX> {
    /// None if it is too long.
    #[must_use]
    pub fn new(object: Map<String, Value>) -> Option<Self> {
        let plain = Plain(object);
        (length(&plain.0) <= MAX).then_some(Self(plain))
    }

    #[must_use]
    pub fn expose(&self) -> &Map<String, Value> {
        &self.0.0
    }
}

impl<const MAX: usize> Clone for Object<MAX> {
    fn clone(&self) -> Self {
        Self(Plain(self.expose().clone()))
    }
}

impl<const MAX: usize> fmt::Debug for Object<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Object")
    }
}

impl<const MAX: usize> Format for Object<MAX> {
    fn read(value: &Value, place: &mut Place<'_>) -> Option<Self> {
        place.expect(value.as_object().and_then(|it| Self::new(it.clone())))
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

/// In characters, as EMV counts; nothing of it is kept.
fn length(object: &Map<String, Value>) -> usize {
    let mut count = Characters(0);
    // Writing to a counter does not fail, and what could not be written would be too long.
    let written = serde_json::to_writer(&mut count, object);
    if written.is_ok() { count.0 } else { usize::MAX }
}

struct Characters(usize);

impl std::io::Write for Characters {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let begins = bytes.iter().filter(|it| (**it & 0xC0) != 0x80).count();
        self.0 = self.0.saturating_add(begins);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
