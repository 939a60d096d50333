//! Taking attributes out of a JSON object, one type at a time. All that is wrong is told at once.

use std::{collections::BTreeMap, fmt};

use scrip_core::{
    error::{Error, FieldError},
    token::Plaintext,
};
use scrip_threeds::request::{AttributeReader, AttributeValue};
use serde_json::{Map, Value};

use crate::wire::ParseError;

pub struct JsonFields {
    object: Map<String, Value>,
    pub(crate) errors: Vec<FieldError>,
}

/// Without the values, which may be secret.
impl fmt::Debug for JsonFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields").finish_non_exhaustive()
    }
}

/// What a name has: nothing, null, or a value.
pub(crate) enum JsonField<T> {
    Absent,
    Null,
    Given(T),
}

impl<T> JsonField<T> {
    /// For requests in which null says the same as nothing.
    pub(crate) fn into_option(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }

    /// For patches, in which null takes something back.
    pub(crate) fn into_patch(self) -> Option<Option<T>> {
        match self {
            Self::Given(value) => Some(Some(value)),
            Self::Null => Some(None),
            Self::Absent => None,
        }
    }
}

impl JsonFields {
    pub fn from_body(body: Plaintext) -> Result<Self, ParseError> {
        let Value::Object(object) = body.into_exposed() else {
            return Err(ParseError::Malformed("the body must be a JSON object".to_owned()));
        };
        Ok(Self { object, errors: Vec::new() })
    }

    pub(crate) fn take_any(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> JsonField<String> {
        self.take(name, "must be text", into_text)
    }

    /// A text that must be there.
    pub(crate) fn required_text(&mut self, name: &'static str) -> JsonField<String> {
        let text = self.text(name);
        if matches!(text, JsonField::Absent | JsonField::Null) {
            self.add_required_error(name);
        }
        text
    }

    /// A text that is one of the values it may have.
    pub(crate) fn parse_choice<T>(
        &mut self,
        name: &'static str,
        text: JsonField<String>,
        parse: impl FnOnce(&str) -> Option<T>,
        rule: &'static str,
    ) -> Option<T> {
        let unknown = || vec![FieldError::new(name, rule)];
        self.parse(text, |it| parse(&it).ok_or_else(unknown)).into_option()
    }

    pub(crate) fn boolean(&mut self, name: &'static str) -> JsonField<bool> {
        self.take(name, "must be true or false", |value| value.as_bool())
    }

    pub(crate) fn count(
        &mut self,
        name: &'static str,
        maximum: usize,
        rule: &'static str,
    ) -> JsonField<usize> {
        self.take(name, rule, |value| {
            let count = usize::try_from(value.as_u64()?).ok()?;
            (1..=maximum).contains(&count).then_some(count)
        })
    }

    pub(crate) fn texts(&mut self, name: &'static str) -> JsonField<Vec<String>> {
        self.take(name, "must be an array of texts", |value| {
            let Value::Array(items) = value else { return None };
            items.into_iter().map(into_text).collect()
        })
    }

    pub(crate) fn text_map(&mut self, name: &'static str) -> JsonField<BTreeMap<String, String>> {
        self.take(name, "must be a map from text to text", |value| {
            let Value::Object(object) = value else { return None };
            // Clients write null for what they leave out, inside a map too.
            let given = object.into_iter().filter(|(_, value)| !value.is_null());
            given.map(|(name, value)| Some((name, into_text(value)?))).collect()
        })
    }

    pub(crate) fn object(&mut self, name: &'static str) -> JsonField<Map<String, Value>> {
        self.take(name, "must be an object", |value| {
            if let Value::Object(object) = value { Some(object) } else { None }
        })
    }

    /// An attribute whose parts are declared elsewhere, each with its type.
    pub(crate) fn read_part<T: AttributeValue>(&mut self, name: &'static str) -> Option<T> {
        let mut reader = AttributeReader::default();
        let read = reader.attribute(&mut self.object, name);
        self.add_violations(reader);
        read
    }

    /// All attributes that were not taken yet, declared in the same way.
    pub(crate) fn read_rest<T: AttributeValue>(&mut self) -> Option<T> {
        let mut reader = AttributeReader::default();
        let read = T::read(Value::Object(std::mem::take(&mut self.object)), &mut reader);
        self.add_violations(reader);
        read
    }

    fn add_violations(&mut self, reader: AttributeReader) {
        let found = reader.into_violations().into_iter();
        self.errors.extend(found.map(|it| FieldError::new(it.path, it.message)));
    }

    /// What a parser makes of a given value; its complaints join the others.
    pub(crate) fn parse<T, U>(
        &mut self,
        field: JsonField<T>,
        parse: impl FnOnce(T) -> Result<U, Vec<FieldError>>,
    ) -> JsonField<U> {
        match field {
            JsonField::Absent => JsonField::Absent,
            JsonField::Null => JsonField::Null,
            JsonField::Given(value) => match parse(value) {
                Ok(parsed) => JsonField::Given(parsed),
                Err(errors) => {
                    self.errors.extend(errors);
                    JsonField::Absent
                }
            },
        }
    }

    pub(crate) fn add_required_error(&mut self, name: &'static str) {
        if !self.errors.iter().any(|it| it.field == name) {
            self.errors.push(FieldError::new(name, "is required"));
        }
    }

    /// What was read, unless there was something to complain about.
    pub(crate) fn finish_with<T>(self, value: Option<T>) -> Result<T, ParseError> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(value),
            _ => Err(Error::Invalid(self.errors).into()),
        }
    }

    pub fn finish(self) -> Result<(), ParseError> {
        if self.errors.is_empty() { Ok(()) } else { Err(Error::Invalid(self.errors).into()) }
    }

    fn take<T>(
        &mut self,
        name: &'static str,
        rule: &'static str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> JsonField<T> {
        match self.object.remove(name) {
            None => JsonField::Absent,
            Some(Value::Null) => JsonField::Null,
            Some(value) => match read(value) {
                Some(value) => JsonField::Given(value),
                None => {
                    self.errors.push(FieldError::new(name, rule));
                    JsonField::Absent
                }
            },
        }
    }
}

fn into_text(value: Value) -> Option<String> {
    if let Value::String(text) = value { Some(text) } else { None }
}
