//! The attributes of requests: each that the reader declares is in the document with its type, and no
//! other.

use scrip_threeds::request::{AuthenticateRequest, Part, Shape};
use serde_json::{Value, json};

use crate::{openapi::document, wire::threeds::device::Told};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// An optional attribute may be null, and others are passed over.
    Request,
    /// No attribute is null, and there is no other.
    Response,
}

/// Rules without a condition; the others are in the table of rules.
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

/// What the schema says of an attribute, without its texts.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            schema["anyOf"].as_array().into_iter().flatten().flat_map(types).collect()
        }
    }
}

fn wanted_types(path: &str, shape: &Shape) -> Vec<&'static str> {
    match (shape, path) {
        (Shape::Text, _) => vec!["string"],
        (Shape::Boolean, _) => vec!["boolean"],
        (Shape::Whole, _) => vec!["integer"],
        (Shape::List(_), _) => vec!["array"],
        (Shape::Object(_), _) | (Shape::Any, "broadcast_info") => vec!["object"],
        (Shape::Any, "device_info.sdk_ephemeral_public_key") => vec!["object", "string"],
        (Shape::Any, _) => Vec::new(),
    }
}

/// One attribute or item with all that is in it. `is_optional`: it may be null in a request.
#[track_caller]
fn check(path: &str, schema: &Value, shape: &Shape, side: Side, is_optional: bool) {
    let mut wanted = wanted_types(path, shape);
    if side == Side::Request && is_optional && !wanted.is_empty() {
        wanted.push("null");
    }
    assert_eq!(types(schema), wanted, "{path}");
    match shape {
        Shape::Text | Shape::Boolean | Shape::Any => (),
        Shape::Whole => {
            assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(1), &json!(10_080)));
        }
        Shape::List(item) => check(path, &schema["items"], item, side, false),
        Shape::Object(attributes) => object(path, schema, attributes, side),
    }
}

#[track_caller]
fn object(path: &str, schema: &Value, attributes: &[(&'static str, Shape)], side: Side) {
    let described = schema["properties"].as_object().unwrap();
    let mut required = Vec::new();
    for (name, shape) in attributes {
        let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
        let schema = described.get(*name);
        let schema = schema.unwrap_or_else(|| panic!("{path} is not in the document"));
        let is_required = side == Side::Request && REQUIRED.contains(&path.as_str());
        if is_required {
            required.push(*name);
        }
        check(&path, schema, shape, side, !is_required);
    }
    // The brand is read apart from the message.
    let other = |it: &&String| !attributes.iter().any(|(name, _)| name == *it);
    let others: Vec<_> = described.keys().filter(other).collect();
    let known: &[&str] = if path.is_empty() { &["card_brand"] } else { &[] };
    assert_eq!(others, known, "{path} has attributes that nobody reads");
    let stated = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    assert_eq!(stated.collect::<Vec<_>>(), required, "required in {path}");
    assert_eq!(schema.get("additionalProperties").is_some(), side == Side::Response, "{path}");
}

fn schema(name: &str) -> &'static Value {
    &document()["components"]["schemas"][name]
}

#[test]
fn authenticate_request_has_the_attributes_that_are_read() {
    let shape = AuthenticateRequest::shape();
    check("", schema("ThreedsAuthenticate"), &shape, Side::Request, false);
}

#[test]
fn device_info_has_the_attributes_that_are_read() {
    let shape = Told::shape();
    let device = |name| &schema(name)["properties"]["device_info"];
    let (new, update) = (device("NewThreedsSession"), device("ThreedsDevice"));
    check("device_info", new, &shape, Side::Request, true);
    check("device_info", update, &shape, Side::Request, false);
    check("device_info", device("ThreedsSession"), &shape, Side::Response, true);
}
