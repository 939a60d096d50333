//! Compares the attributes of requests with the document: every attribute that the parser declares,
//! with its type, and no other.

use scrip_threeds::request::{AttributeShape, AttributeValue, AuthenticateRequest};
use serde_json::{Value, json};

use crate::{openapi::document, wire::threeds::device::DeviceInfoInput};

#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageSide {
    /// Optional attributes may be null, and unknown attributes are ignored.
    Request,
    /// No attribute is null, and there are no other attributes.
    Response,
}

/// Attributes that are always required. The conditional ones are in the table of rules.
const REQUIRED: &[&str] = &[
    "authentication_category",
    "authentication_type",
    "requestor_info",
    "requestor_info.id",
    "requestor_info.name",
    "requestor_info.url",
    "cardholder_info",
    "cardholder_info.name",
    "cardholder_info.email",
];

/// Returns the types of an attribute in the document.
fn documented_types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            schema["anyOf"].as_array().into_iter().flatten().flat_map(documented_types).collect()
        }
    }
}

fn expected_types(path: &str, shape: &AttributeShape) -> Vec<&'static str> {
    match (shape, path) {
        (AttributeShape::Text, _) => vec!["string"],
        (AttributeShape::Boolean, _) => vec!["boolean"],
        (AttributeShape::Integer, _) => vec!["integer"],
        (AttributeShape::List(_), _) => vec!["array"],
        (AttributeShape::Object(_), _) | (AttributeShape::Any, "broadcast_info") => vec!["object"],
        (AttributeShape::Any, "device_info.sdk_ephemeral_public_key") => vec!["object", "string"],
        (AttributeShape::Any, _) => Vec::new(),
    }
}

/// Compares one attribute or item with everything inside of it. `is_optional`: may be null in a
/// request.
#[track_caller]
fn check_attribute(
    path: &str,
    schema: &Value,
    shape: &AttributeShape,
    side: MessageSide,
    is_optional: bool,
) {
    let mut expected = expected_types(path, shape);
    if side == MessageSide::Request && is_optional && !expected.is_empty() {
        expected.push("null");
    }
    assert_eq!(documented_types(schema), expected, "{path}");
    match shape {
        AttributeShape::Text | AttributeShape::Boolean | AttributeShape::Any => (),
        AttributeShape::Integer => {
            assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(10_080)));
        }
        AttributeShape::List(item) => check_attribute(path, &schema["items"], item, side, false),
        AttributeShape::Object(attributes) => check_object(path, schema, attributes, side),
    }
}

#[track_caller]
fn check_object(
    path: &str,
    schema: &Value,
    attributes: &[(&'static str, AttributeShape)],
    side: MessageSide,
) {
    let documented = schema["properties"].as_object().unwrap();
    let mut required = Vec::new();
    for (name, shape) in attributes {
        let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
        let schema = documented.get(*name);
        let schema = schema.unwrap_or_else(|| panic!("{path} is not in the document"));
        let is_required = side == MessageSide::Request && REQUIRED.contains(&path.as_str());
        if is_required {
            required.push(*name);
        }
        check_attribute(&path, schema, shape, side, !is_required);
    }
    // The brand is parsed separately from the message.
    let is_undeclared = |it: &&String| !attributes.iter().any(|(name, _)| name == *it);
    let undeclared: Vec<_> = documented.keys().filter(is_undeclared).collect();
    let expected_undeclared: &[&str] = if path.is_empty() { &["card_brand"] } else { &[] };
    assert_eq!(undeclared, expected_undeclared, "{path} has attributes that the parser ignores");
    let documented_required =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    assert_eq!(documented_required.collect::<Vec<_>>(), required, "required in {path}");
    assert_eq!(
        schema.get("additionalProperties").is_some(),
        side == MessageSide::Response,
        "{path}"
    );
}

fn schema(name: &str) -> &'static Value {
    &document()["components"]["schemas"][name]
}

#[test]
fn documented_authenticate_request_matches_the_parser() {
    let shape = AuthenticateRequest::shape();
    check_attribute("", schema("ThreedsAuthenticate"), &shape, MessageSide::Request, false);
}

#[test]
fn documented_device_info_matches_the_parser() {
    let shape = DeviceInfoInput::shape();
    let device = |name| &schema(name)["properties"]["device_info"];
    let (new_session, device_update) = (device("NewThreedsSession"), device("ThreedsDevice"));
    check_attribute("device_info", new_session, &shape, MessageSide::Request, true);
    check_attribute("device_info", device_update, &shape, MessageSide::Request, false);
    check_attribute("device_info", device("ThreedsSession"), &shape, MessageSide::Response, true);
}
