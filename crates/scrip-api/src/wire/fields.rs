//! Extracts typed attributes from a JSON object. All errors are reported together.

use std::{collections::BTreeMap, fmt};

use scrip_core::{Error, FieldError, types::Plaintext};
use scrip_threeds::request::{AttributeReader, AttributeValue};
use serde_json::{Map, Value};

use crate::wire::ParseError;

pub struct JsonFields {
    object: Map<String, Value>,
    pub(crate) errors: Vec<FieldError>,
}

/// Omits the values, which can be secret.
impl fmt::Debug for JsonFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonFields").finish_non_exhaustive()
    }
}

/// An attribute: absent, null, or a value.
pub(crate) enum JsonField<T> {
    Absent,
    Null,
    Given(T),
}

impl<T> JsonField<T> {
    /// For requests in which null means the same as absent.
    pub(crate) fn into_option(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }

    /// For patches, in which null removes the value.
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

    /// The attributes of an object inside a body.
    pub(crate) fn from_object(object: Map<String, Value>) -> Self {
        Self { object, errors: Vec::new() }
    }

    pub(crate) fn take_any(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> JsonField<String> {
        let rule = match self.object.get(name).is_some_and(Value::is_number) {
            true => "must be text: write the number in quotes",
            false => "must be text",
        };
        self.take(name, rule, into_text)
    }

    /// A required string.
    pub(crate) fn required_text(&mut self, name: &'static str) -> JsonField<String> {
        let text = self.text(name);
        if matches!(text, JsonField::Absent | JsonField::Null) {
            self.add_required_error(name);
        }
        text
    }

    /// A string from a fixed list of values.
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
        let rule = match self.object.get(name).is_some_and(Value::is_string) {
            true => "must be true or false, without quotes",
            false => "must be true or false",
        };
        self.take(name, rule, |value| value.as_bool())
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
            // Clients write null for an omitted entry, also inside a map.
            let entries = object.into_iter().filter(|(_, value)| !value.is_null());
            entries.map(|(name, value)| Some((name, into_text(value)?))).collect()
        })
    }

    pub(crate) fn object(&mut self, name: &'static str) -> JsonField<Map<String, Value>> {
        self.take(name, "must be an object", |value| {
            if let Value::Object(object) = value { Some(object) } else { None }
        })
    }

    /// Reads an attribute with a declared structure.
    pub(crate) fn read_part<T: AttributeValue>(&mut self, name: &'static str) -> Option<T> {
        let mut reader = AttributeReader::default();
        let value = reader.attribute(&mut self.object, name);
        self.add_violations(reader);
        value
    }

    /// Reads all remaining attributes with a declared structure.
    pub(crate) fn read_rest<T: AttributeValue>(&mut self) -> Option<T> {
        let mut reader = AttributeReader::default();
        let value = T::read(Value::Object(std::mem::take(&mut self.object)), &mut reader);
        self.add_violations(reader);
        value
    }

    fn add_violations(&mut self, reader: AttributeReader) {
        let violations = reader.into_violations().into_iter();
        self.errors.extend(violations.map(|it| FieldError::new(it.path, it.message)));
    }

    /// Parses a given value, and adds the errors of the parser.
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

    /// Returns the value if there are no errors.
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
        convert: impl FnOnce(Value) -> Option<T>,
    ) -> JsonField<T> {
        match self.object.remove(name) {
            None => JsonField::Absent,
            Some(Value::Null) => JsonField::Null,
            Some(value) => match convert(value) {
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
