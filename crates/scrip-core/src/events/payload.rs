//! The data of events: ids, types, names and metadata, never data of tokens and never masks.
//!
//! There is one function for each event type.

pub mod application;
pub mod proxy;
pub mod tenant;
pub mod threeds_session;
pub mod token;

use std::{fmt::Display, time::Duration};

use serde_json::{Map, Value};

use crate::policy::ChangeStamp;

/// The `data` of an event, without its actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventData(Map<String, Value>);

impl EventData {
    fn new(name: &str, attributes: PayloadAttributes) -> Self {
        Self(Map::new()).with(name, attributes)
    }

    fn with(mut self, name: &str, attributes: PayloadAttributes) -> Self {
        self.0.insert(name.to_owned(), attributes.into_value());
        self
    }

    pub(super) fn into_attributes(self) -> Map<String, Value> {
        self.0
    }
}

/// The attributes of an object in an event. An attribute without a value is left out.
#[derive(Debug, Default)]
struct PayloadAttributes(Map<String, Value>);

/// The largest number that JavaScript keeps. A receiver that writes a larger one again would change
/// it, and the signature would not match.
const NUMBER_MAX: u64 = (1 << 53) - 1;

impl PayloadAttributes {
    /// An object with an id.
    fn with_id(id: impl Display) -> Self {
        Self::default().text("id", id)
    }

    fn text(self, name: &str, text: impl Display) -> Self {
        self.value(name, text.to_string())
    }

    fn optional_text(self, name: &str, text: Option<impl Display>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    fn number(self, name: &str, number: u64) -> Self {
        self.value(name, number.min(NUMBER_MAX))
    }

    fn elapsed(self, elapsed: Duration) -> Self {
        self.number("elapsed_ms", u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    fn value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    fn object(self, name: &str, attributes: Self) -> Self {
        self.value(name, attributes.into_value())
    }

    /// `created_at` and `created_by`. The operator is no application and has no id.
    fn created(self, stamp: ChangeStamp) -> Self {
        self.text("created_at", stamp.at).optional_text("created_by", stamp.by)
    }

    fn modified(self, stamp: Option<ChangeStamp>) -> Self {
        self.optional_text("modified_at", stamp.map(|it| it.at))
            .optional_text("modified_by", stamp.and_then(|it| it.by))
    }

    fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
mod tests;
