//! Reads the client's JSON as the structs declare it.
//!
//! Null means absent, and unknown attributes are ignored. A value of a wrong type is reported with
//! its path and the expected type. Values are never converted from one type to another.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// A violation: the attribute and the rule. Never contains a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub path: Cow<'static, str>,
    pub message: &'static str,
}

/// The maximum number of reported violations.
const VIOLATIONS_MAX: usize = 100;

/// The type of an attribute, for the API description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeShape {
    Text,
    Boolean,
    Integer,
    /// Any JSON.
    Any,
    List(Box<AttributeShape>),
    Object(Vec<(&'static str, AttributeShape)>),
}

/// A type of attribute values.
pub trait AttributeValue: Sized {
    fn shape() -> AttributeShape;

    /// Returns `None` for a value of another type and records a violation.
    fn read(value: Value, reader: &mut AttributeReader) -> Option<Self>;
}

/// The current path in the request, and the violations found so far.
#[derive(Debug, Default)]
pub struct AttributeReader {
    path: String,
    violations: Vec<Violation>,
}

impl AttributeReader {
    /// All type violations.
    pub fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    /// Removes an attribute from an object and reads it.
    pub fn attribute<T: AttributeValue>(
        &mut self,
        object: &mut Map<String, Value>,
        name: &str,
    ) -> Option<T> {
        let value = object.remove(name).filter(|it| !it.is_null())?;
        let dot = if self.path.is_empty() { "" } else { "." };
        self.read_at(&format!("{dot}{name}"), |reader| T::read(value, reader))
    }

    /// Requires that the value is an object.
    pub fn object(&mut self, value: Value) -> Option<Map<String, Value>> {
        let object = if let Value::Object(object) = value { Some(object) } else { None };
        self.require(object, "must be an object")
    }

    fn read_at<T>(&mut self, segment: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let parent_length = self.path.len();
        self.path.push_str(segment);
        let read = read(self);
        self.path.truncate(parent_length);
        read
    }

    fn require<T>(&mut self, value: Option<T>, rule: &'static str) -> Option<T> {
        if value.is_none() && self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { path: self.path.clone().into(), message: rule });
        }
        value
    }
}

impl AttributeValue for String {
    fn shape() -> AttributeShape {
        AttributeShape::Text
    }

    fn read(value: Value, reader: &mut AttributeReader) -> Option<Self> {
        let rule = match value.is_number() {
            true => "must be text: write the number in quotes",
            false => "must be text",
        };
        let text = if let Value::String(text) = value { Some(text) } else { None };
        reader.require(text, rule)
    }
}

impl AttributeValue for bool {
    fn shape() -> AttributeShape {
        AttributeShape::Boolean
    }

    fn read(value: Value, reader: &mut AttributeReader) -> Option<Self> {
        let rule = match value.is_string() {
            true => "must be true or false, without quotes",
            false => "must be true or false",
        };
        reader.require(value.as_bool(), rule)
    }
}

impl AttributeValue for i64 {
    fn shape() -> AttributeShape {
        AttributeShape::Integer
    }

    fn read(value: Value, reader: &mut AttributeReader) -> Option<Self> {
        let rule = match value.is_string() {
            true => "must be a whole number, without quotes",
            false => "must be a whole number",
        };
        reader.require(value.as_i64(), rule)
    }
}

impl AttributeValue for Value {
    fn shape() -> AttributeShape {
        AttributeShape::Any
    }

    fn read(value: Value, _: &mut AttributeReader) -> Option<Self> {
        Some(value)
    }
}

impl<T: AttributeValue> AttributeValue for Vec<T> {
    fn shape() -> AttributeShape {
        AttributeShape::List(Box::new(T::shape()))
    }

    fn read(value: Value, reader: &mut AttributeReader) -> Option<Self> {
        let items = if let Value::Array(items) = value { Some(items) } else { None };
        let items = reader.require(items, "must be an array")?.into_iter().enumerate();
        let read = |(at, item)| reader.read_at(&format!("[{at}]"), |reader| T::read(item, reader));
        Some(items.filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::{AuthenticateRequest, DeviceInfo};

    fn type_violations<T: AttributeValue>(value: Value) -> Vec<(String, &'static str)> {
        let mut reader = AttributeReader::default();
        T::read(value, &mut reader);
        reader.into_violations().into_iter().map(|it| (it.path.into_owned(), it.message)).collect()
    }

    #[test]
    fn read_accepts_matching_types_and_skips_unknown_and_null() {
        let mut reader = AttributeReader::default();
        let value = json!({
            "authentication_category": "payment",
            "request_decoupled_challenge": false,
            "decoupled_challenge_max_time": 10,
            "purchase_info": {"amount": "1000", "currency": null},
            "merchant_info": null,
            "message_extensions": [{"id": "a", "critical": true, "data": {"b": 1.5}}],
            "metadata": {"a": 1},
            "broadcast_info": {"a": [1]},
        });
        let read = AuthenticateRequest::read(value, &mut reader).unwrap();
        assert_eq!(reader.into_violations(), []);
        assert_eq!(read.authentication_category.as_deref(), Some("payment"));
        assert_eq!(read.request_decoupled_challenge, Some(false));
        assert_eq!(read.decoupled_challenge_max_time, Some(10));
        let purchase = read.purchase_info.unwrap();
        assert_eq!((purchase.amount.as_deref(), purchase.currency), (Some("1000"), None));
        assert!(read.merchant_info.is_none());
        let extensions = read.message_extensions.unwrap();
        assert_eq!(extensions[0].data, Some(json!({"b": 1.5})));
        assert_eq!((extensions[0].critical, &extensions[0].name), (Some(true), &None));
        assert_eq!(read.broadcast_info, Some(json!({"a": [1]})));
    }

    #[test]
    fn type_violations_name_the_path_and_no_value() {
        let violations = type_violations::<AuthenticateRequest>(json!({
            "authentication_category": 1,
            "request_decoupled_challenge": "true",
            "decoupled_challenge_max_time": 1.5,
            "purchase_info": {"amount": 1000, "date": ["x"]},
            "cardholder_info": {"billing_address": "somewhere", "phone_number": {"number": 5}},
            "message_extensions": [{"id": 1}, "x", null],
        }));
        let expected = [
            ("authentication_category", "must be text: write the number in quotes"),
            ("request_decoupled_challenge", "must be true or false, without quotes"),
            ("decoupled_challenge_max_time", "must be a whole number"),
            ("purchase_info.amount", "must be text: write the number in quotes"),
            ("purchase_info.date", "must be text"),
            ("cardholder_info.phone_number.number", "must be text: write the number in quotes"),
            ("cardholder_info.billing_address", "must be an object"),
            ("message_extensions[0].id", "must be text: write the number in quotes"),
            ("message_extensions[1]", "must be an object"),
            ("message_extensions[2]", "must be an object"),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(path, rule)| (path.to_owned(), rule)).collect();
        assert_eq!(violations, expected);
        let text = json!({"decoupled_challenge_max_time": "10"});
        let expected =
            [("decoupled_challenge_max_time".to_owned(), "must be a whole number, without quotes")];
        assert_eq!(type_violations::<AuthenticateRequest>(text), expected);
        let expected = [("".to_owned(), "must be an object")];
        assert_eq!(type_violations::<DeviceInfo>(json!([])), expected);
    }

    #[test]
    fn violations_are_capped() {
        let many = vec![json!(1); VIOLATIONS_MAX + 50];
        assert_eq!(type_violations::<Vec<String>>(many.into()).len(), VIOLATIONS_MAX);
    }

    #[test]
    fn shape_describes_the_attributes_that_are_read() {
        let AttributeShape::Object(attributes) = DeviceInfo::shape() else { panic!("no object") };
        let shape_of = |name: &str| attributes.iter().find(|it| it.0 == name).map(|it| &it.1);
        assert_eq!(shape_of("browser_ip"), Some(&AttributeShape::Text));
        assert_eq!(shape_of("browser_java_enabled"), Some(&AttributeShape::Boolean));
        assert_eq!(shape_of("sdk_ephemeral_public_key"), Some(&AttributeShape::Any));
        let options =
            [("sdk_interface", AttributeShape::Text), ("sdk_ui_type", Vec::<String>::shape())];
        assert_eq!(shape_of("sdk_render_options"), Some(&AttributeShape::Object(options.to_vec())));
    }
}
