//! JSON of transforms. The rules of each type are in the core; here are the types of the attributes.

use scrip_core::{
    FieldError,
    policy::proxy::{
        TransformList, TransformSource,
        transform::{MatcherType, TransformOptions, TransformType},
    },
};
use serde_json::{Map, Value};

use crate::wire::json::JsonFields;

/// The two attributes of the transforms of one direction: the older one with one transform, and
/// the array.
pub(super) struct TransformAttributes {
    pub(super) single: &'static str,
    pub(super) array: &'static str,
}

pub(super) const REQUEST: TransformAttributes =
    TransformAttributes { single: "request_transform", array: "request_transforms" };
pub(super) const RESPONSE: TransformAttributes =
    TransformAttributes { single: "response_transform", array: "response_transforms" };

/// Parses the transforms of one direction. Adds errors to the fields.
pub(super) fn parse_list(
    fields: &mut JsonFields,
    attributes: &TransformAttributes,
) -> TransformList {
    let take = |fields: &mut JsonFields, name| fields.take_any(name).filter(|it| !it.is_null());
    let (single, array) = (take(fields, attributes.single), take(fields, attributes.array));
    let list = match (single, array) {
        (None, None) => return TransformList::default(),
        (Some(_), Some(_)) => {
            let rule = "must not be given together with the array of the same direction";
            Err(vec![FieldError::new(attributes.single, rule)])
        }
        (Some(value), None) => parse_transform(value)
            .map_err(|errors| prefix_paths(errors, attributes.single))
            .and_then(|it| TransformList::parse_single(attributes.single, it)),
        (None, Some(Value::Array(items))) => parse_array(attributes.array, items),
        (None, Some(_)) => Err(vec![FieldError::new(attributes.array, "must be an array")]),
    };
    list.unwrap_or_else(|errors| {
        fields.errors.extend(errors);
        TransformList::default()
    })
}

fn parse_array(name: &'static str, items: Vec<Value>) -> Result<TransformList, Vec<FieldError>> {
    let (mut sources, mut errors) = (Vec::new(), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        match parse_transform(item) {
            Ok(source) => sources.push(source),
            Err(item_errors) => {
                errors.extend(prefix_paths(item_errors, &format!("{name}[{index}]")));
            }
        }
    }
    if errors.is_empty() { TransformList::parse(name, sources) } else { Err(errors) }
}

fn prefix_paths(errors: Vec<FieldError>, path: &str) -> Vec<FieldError> {
    errors.into_iter().map(|it| it.prefix_path(path)).collect()
}

fn parse_transform(value: Value) -> Result<TransformSource, Vec<FieldError>> {
    let Value::Object(object) = value else {
        return Err(vec![FieldError::new("", "must be an object")]);
    };
    let mut fields = JsonFields::from_object(object);
    let transform_type = fields.text("type");
    let transform_type =
        fields.parse_choice("type", transform_type, TransformType::parse, TYPE_RULE);
    let matcher = fields.text("matcher");
    let matcher = fields.parse_choice("matcher", matcher, MatcherType::parse, MATCHER_RULE);
    let options = fields.object("options").into_option();
    let options = options.map(parse_options).transpose().unwrap_or_else(|errors| {
        fields.errors.extend(prefix_paths(errors, "options"));
        None
    });
    let source = TransformSource {
        transform_type,
        code: fields.text("code").into_option(),
        matcher,
        expression: fields.text("expression").into_option(),
        replacement: fields.text("replacement").into_option(),
        options,
    };
    if fields.errors.is_empty() { Ok(source) } else { Err(fields.errors) }
}

const TYPE_RULE: &str = "must be code, mask, tokenize, append_json, append_text or append_header";
const MATCHER_RULE: &str = "must be regex or chase_stratus_pan";

fn parse_options(object: Map<String, Value>) -> Result<TransformOptions, Vec<FieldError>> {
    let mut fields = JsonFields::from_object(object);
    let not_null = |value: Option<Value>| value.filter(|it| !it.is_null());
    let options = TransformOptions {
        token: not_null(fields.take_any("token")),
        identifier: fields.text("identifier").into_option(),
        value: fields.text("value").into_option(),
        location: fields.text("location").into_option(),
        runtime: not_null(fields.take_any("runtime")),
    };
    if fields.errors.is_empty() { Ok(options) } else { Err(fields.errors) }
}
