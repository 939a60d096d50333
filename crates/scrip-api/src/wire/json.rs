//! Strict JSON parsing: no duplicate names, limited depth, numbers as written. An error states the
//! rule and the position, never the input.

use std::{collections::BTreeMap, fmt};

use scrip_core::{
    Error, FieldError,
    types::{
        Plaintext,
        plaintext::{VALUES_MAX, count_values},
    },
};
use scrip_threeds::request::{AttributeReader, AttributeValue};
use scrip_types::strict_json::{self, JsonLimits, JsonRule, StrictJsonError};
use serde_json::{Map, Value};

use crate::wire::ParseError;

const DEPTH_MAX: usize = 32;

const DUPLICATE: &str = "an object has a duplicate name";
const TOO_DEEP: &str = "the JSON is nested deeper than 32 levels";
const RESERVED: &str = "a name in the JSON is reserved";
const TOO_DENSE: &str = "the JSON has too many values for its size";

/// Parsed JSON may use this many times the length of its text in memory, plus one megabyte. Without
/// the limit, a text of small objects would use a hundred times its length.
const MEMORY_PER_BYTE: usize = 32;
const MEMORY_BASE: usize = 1024 * 1024;
const TOO_MANY: &str = "the JSON has more than 100,000 values";

/// Parses the whole body as one value.
/// Errors: the violated rule and its position.
pub fn read(body: &[u8]) -> Result<Plaintext, ParseError> {
    let text = std::str::from_utf8(body)
        .map_err(|_| ParseError::Malformed("the body is not UTF-8 text".to_owned()))?;
    let memory_max = text.len().saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_BASE);
    let result = strict_json::parse(text, JsonLimits { depth_max: DEPTH_MAX, memory_max });
    let value = result.map_err(|it| ParseError::Malformed(explain(&it)))?;
    let value = Plaintext::new(value);
    if count_values(value.expose(), VALUES_MAX).is_none() {
        return Err(ParseError::Malformed(TOO_MANY.to_owned()));
    }
    Ok(value)
}

fn explain(rejection: &StrictJsonError) -> String {
    let rule = match rejection.rule {
        JsonRule::Syntax => "the body is not valid JSON",
        JsonRule::Duplicate(_) => DUPLICATE,
        JsonRule::TooDeep => TOO_DEEP,
        JsonRule::ReservedName => RESERVED,
        JsonRule::TooMuchMemory => TOO_DENSE,
    };
    match rejection.position {
        Some(position) => format!("{rule} (line {}, column {})", position.line, position.column),
        None => rule.to_owned(),
    }
}

/// Extracts typed attributes from a JSON object. All errors are reported together.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_accepted(text: &str) {
        let value = read(text.as_bytes()).map(Plaintext::into_exposed);
        assert_eq!(value.unwrap().to_string(), text);
    }

    #[track_caller]
    fn check_rejected(text: &str, expected: &str) {
        match read(text.as_bytes()) {
            Err(ParseError::Malformed(rule)) => assert!(rule.starts_with(expected), "{rule}"),
            result => panic!("{result:?}"),
        }
    }

    #[test]
    fn json_values_survive_parsing_unchanged() {
        check_accepted("12345678901234567890123");
        check_accepted("-0.1000");
        check_accepted("1e+400");
        check_accepted(r#"{"a":[1,2.50,null,true],"b":{"c":"\" é"}}"#);
        check_accepted("[]");
        check_accepted("{}");
        check_accepted(r#""text""#);
    }

    #[test]
    fn invalid_json_is_rejected_with_the_rule() {
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
            check_rejected(text, invalid);
        }
        check_rejected(r#"{"a":1,"b":{"c":1,"c":2}}"#, DUPLICATE);
        check_rejected(r#"{"a":1,"\u0061":2}"#, DUPLICATE);
        check_rejected(&format!("{}{}", "[".repeat(33), "]".repeat(33)), TOO_DEEP);
        check_rejected(&"[".repeat(100_000), TOO_DEEP);
        check_rejected(&format!("{}{{}}{}", "[".repeat(32), "]".repeat(32)), TOO_DEEP);
        assert!(read(&[b'"', 0xff, b'"']).is_err());
    }

    #[test]
    fn object_with_the_private_number_key_is_rejected() {
        check_rejected(r#"{"$serde_json::private::Number":"12"}"#, RESERVED);
        check_rejected(r#"{"\u0024serde_json::private::Number":"12"}"#, RESERVED);
        check_rejected(r#"{"a":1,"\u0024serde_json::private::Number":"12"}"#, RESERVED);
    }

    #[test]
    fn parsed_size_is_limited_by_text_size() {
        let repeat = |item: &str, bytes: usize| {
            format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","))
        };
        for item in [r#"{"a":0}"#, r#"{"":[]}"#, "[{}]", "[[[0]]]"] {
            let text = repeat(item, 1_000_000);
            // The memory of these fits, and their number does not.
            let has_small_values = matches!(item, "[{}]" | "[[[0]]]");
            check_rejected(&text, if has_small_values { TOO_MANY } else { TOO_DENSE });
            // A small body may be dense.
            assert!(read(repeat(item, 10_000).as_bytes()).is_ok(), "{item}");
        }
        for item in ["0", "\"x\"", "[[],[]]"] {
            check_rejected(&repeat(item, 1_000_000), TOO_MANY);
            assert!(read(repeat(item, 190_000).as_bytes()).is_ok(), "{item}");
        }
        let tokens = repeat(r#"{"type":"token","data":"x"}"#, 900_000);
        assert!(read(tokens.as_bytes()).is_ok());
    }

    #[test]
    fn maximum_depth_is_accepted() {
        check_accepted(&format!("{}{}", "[".repeat(32), "]".repeat(32)));
    }
}
