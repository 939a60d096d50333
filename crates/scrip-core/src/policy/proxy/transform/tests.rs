//! The rules of transforms.

use serde_json::{Value, json};

use super::*;

fn parse(transforms: Value) -> Result<TransformList, Vec<FieldError>> {
    TransformList::parse("request_transforms", serde_json::from_value(transforms).unwrap())
}

#[track_caller]
fn check_valid(transforms: Value) {
    let list = parse(transforms.clone());
    assert!(list.is_ok(), "{transforms}: {list:?}");
    assert!(list.unwrap().compile(TransformStage::Request, None).is_some());
}

#[track_caller]
fn check_invalid(transforms: Value, fields: &[&str]) {
    let errors = parse(transforms.clone()).err().unwrap_or_default();
    let error_fields: Vec<_> = errors.iter().map(|it| it.field.as_ref()).collect();
    let expected: Vec<_> = fields.iter().map(|it| format!("request_transforms{it}")).collect();
    assert_eq!(error_fields, expected, "errors of {transforms}");
}

#[test]
fn every_type_of_transform_is_accepted() {
    check_valid(json!([]));
    check_valid(json!([
        {"code": "module.exports = async (req) => req.args"},
        {"type": "mask", "matcher": "regex", "expression": "(\\d+)", "replacement": "*"},
        {"type": "mask", "matcher": "chase_stratus_pan", "replacement": "✱"},
        {"type": "tokenize", "options": {"token": {"type": "card"}, "identifier": "a"}},
        {"type": "tokenize", "options": {"token": {"type": "card"}, "identifier": "b"}},
        {"type": "tokenize", "options": {"token": {"type": "card"}}},
        {"type": "append_json", "options": {"location": "$.id", "value": "{{ x }}"}},
        {"type": "append_text", "options": {"value": ""}},
        {"type": "append_header", "options": {"location": "X-Token", "value": "a"}},
    ]));
    check_valid(
        json!([{"type": "code", "code": "x", "options": {"runtime": {"image": "node22"}}}]),
    );
}

#[test]
fn rules_of_each_type_are_checked() {
    check_invalid(json!([{}]), &["[0].code"]);
    check_invalid(json!([{"code": " "}]), &["[0].code"]);
    check_invalid(json!([{"code": "x".repeat(50_001)}]), &["[0].code"]);
    check_invalid(
        json!([{"code": "x", "matcher": "regex", "expression": "(a)", "replacement": "*"}]),
        &["[0].matcher", "[0].expression", "[0].replacement"],
    );
    check_invalid(json!([{"code": "x"}, {"code": "y"}]), &[""]);
    check_invalid(json!([{"code": "x", "options": {"runtime": 7}}]), &["[0].options.runtime"]);
    check_invalid(json!([{"type": "mask"}]), &["[0].matcher", "[0].replacement"]);
    let mask = |changes: Value| {
        let mut mask =
            json!({"type": "mask", "matcher": "regex", "expression": "(a)", "replacement": "*"});
        json_patch::merge(&mut mask, &changes);
        json!([mask])
    };
    check_valid(mask(json!({})));
    check_invalid(mask(json!({"expression": null})), &["[0].expression"]);
    check_invalid(mask(json!({"replacement": "**"})), &["[0].replacement"]);
    check_invalid(mask(json!({"replacement": ""})), &["[0].replacement"]);
    check_invalid(mask(json!({"replacement": "\n"})), &["[0].replacement"]);
    check_invalid(mask(json!({"matcher": "chase_stratus_pan"})), &["[0].expression"]);
    check_invalid(mask(json!({"code": "x"})), &["[0].code"]);
}

#[test]
fn rules_of_options_are_checked() {
    check_invalid(json!([{"type": "tokenize"}]), &["[0].options.token"]);
    check_invalid(json!([{"type": "tokenize", "options": {"token": "x"}}]), &["[0].options.token"]);
    let tokenize = |identifier: &str| json!({"type": "tokenize", "options": {"token": {}, "identifier": identifier}});
    check_invalid(json!([tokenize("")]), &["[0].options.identifier"]);
    check_invalid(json!([tokenize(&"x".repeat(101))]), &["[0].options.identifier"]);
    check_invalid(
        json!([tokenize("a"), tokenize("b"), tokenize("a")]),
        &["[2].options.identifier"],
    );
    check_invalid(json!([{"type": "append_text"}]), &["[0].options.value"]);
    let append = json!([{"type": "append_json"}]);
    check_invalid(append, &["[0].options.location", "[0].options.value"]);
    let append = |kind: &str, location: &str| json!([{"type": kind, "options": {"location": location, "value": "v"}}]);
    check_invalid(append("append_json", "$.a[*]"), &["[0].options.location"]);
    check_invalid(append("append_header", ""), &["[0].options.location"]);
    check_invalid(append("append_header", "a b"), &["[0].options.location"]);
    check_invalid(append("append_header", "a\r\nb"), &["[0].options.location"]);
    check_invalid(append("append_header", "Content-Length"), &["[0].options.location"]);
    let large = json!([{"type": "append_text", "options": {"value": "x".repeat(32 * 1024 + 1)}}]);
    check_invalid(large, &["[0].options.value"]);
    let many: Vec<_> =
        (0..17).map(|_| json!({"type": "append_text", "options": {"value": "x"}})).collect();
    check_invalid(json!(many), &[""]);
}

#[test]
fn single_transform_and_array_are_distinguished() {
    let source: TransformSource = serde_json::from_value(json!({"code": "x"})).unwrap();
    let single = TransformList::parse_single("request_transform", source.clone()).unwrap();
    assert_eq!((single.single(), single.array()), (Some(&source), None));
    let array = TransformList::parse("request_transforms", vec![source.clone()]).unwrap();
    assert_eq!((array.single(), array.array()), (None, Some([source].as_slice())));
    assert!(single.has_same_effect(&array));
    let errors = TransformList::parse_single("request_transform", TransformSource::default());
    assert_eq!(errors.unwrap_err()[0].field, "request_transform.code");
}

#[test]
fn stored_mask_that_is_too_large_now_can_be_loaded() {
    let stored = |expression: &str| -> TransformList {
        serde_json::from_value(json!({"sources": [{"type": "mask", "matcher": "regex",
            "expression": expression, "replacement": "*"}]}))
        .unwrap()
    };
    for expression in ["^([ab]*a[ab]{1900})", r"(\p{Greek}+)"] {
        let transforms = stored(expression).compile(TransformStage::Request, None).unwrap();
        assert!(matches!(transforms.as_slice(), [ProxyTransform::OversizedMask]), "{expression}");
    }
    assert!(stored("(a").compile(TransformStage::Request, None).is_none());
}

fn mask(expression: &str) -> Value {
    json!({"type": "mask", "matcher": "regex", "expression": expression, "replacement": "*"})
}

#[test]
fn first_compile_error_is_reported_with_its_path() {
    let list = parse(json!([mask("(a)"), mask("(b"), mask("(c")])).unwrap();
    let error = list.compile_new("request_transform").unwrap_err();
    assert_eq!(error.field, "request_transforms[1].expression");
    let source = serde_json::from_value(mask("(b")).unwrap();
    let single = TransformList::parse_single("response_transform", source).unwrap();
    let error = single.compile_new("response_transform").unwrap_err();
    assert_eq!(error.field, "response_transform.expression");
}

#[test]
fn unchanged_transform_is_not_compiled_again() {
    let list = parse(json!([mask("(a)"), mask("(b)")])).unwrap();
    let compiled = list.compile(TransformStage::Request, None).unwrap();
    let previous = CompiledTransforms { list: &list, transforms: &compiled };
    let changed = parse(json!([mask("(b)"), mask("(c)")])).unwrap();
    let again = changed.compile(TransformStage::Request, Some(previous)).unwrap();
    let address = |it: &ProxyTransform| {
        let ProxyTransform::Mask { matcher: MaskMatcher::Regex(pattern), .. } = it else {
            panic!("{it:?}");
        };
        std::ptr::from_ref(pattern.forward())
    };
    assert_eq!(address(&again[0]), address(&compiled[1]));
}

fn append(transform_type: &str) -> Value {
    let location = if transform_type == "append_json" { "$.a" } else { "X-A" };
    json!({"type": transform_type, "options": {"location": location, "value": "{{ req.a }}"}})
}

/// It would compare the names of properties with the appended text.
#[test]
fn transform_of_a_request_that_reads_an_appended_text_is_rejected() {
    let text = json!({"type": "append_text", "options": {"value": "{{ config: k }}"}});
    for reading in [append("append_json"), mask("(a)")] {
        check_invalid(json!([text, reading]), &["[1]"]);
        check_invalid(json!([text, append("append_header"), reading, reading]), &["[2]", "[3]"]);
        check_valid(json!([reading, text]));
        let stored = json!({"sources": [text, reading]});
        let stored: TransformList = serde_json::from_value(stored).unwrap();
        let transforms = stored.compile(TransformStage::Request, None).unwrap();
        assert!(matches!(
            transforms.as_slice(),
            [ProxyTransform::AppendText { .. }, ProxyTransform::RejectedTemplate]
        ));
        assert!(stored.has_rejected_template(TransformStage::Request));
        // The answer is that of the destination, and a template of an answer reads no configuration.
        let plain = json!({"type": "append_text", "options": {"value": "x"}});
        let response = serde_json::from_value(json!([plain, reading])).unwrap();
        assert!(TransformList::parse("response_transforms", response).is_ok());
    }
    let error = parse(json!([text, mask("(a)")])).unwrap_err();
    assert!(error[0].problem.contains("put it before the append_text"), "{error:?}");
}

#[test]
fn transform_that_is_usable_in_another_order_is_compiled_again() {
    let text = json!({"type": "append_text", "options": {"value": "x"}});
    let list = |sources: Value| -> TransformList {
        serde_json::from_value(json!({"sources": sources})).unwrap()
    };
    let rejected = list(json!([text, append("append_json")]));
    let compiled = rejected.compile(TransformStage::Request, None).unwrap();
    let previous = CompiledTransforms { list: &rejected, transforms: &compiled };
    let repaired = list(json!([append("append_json"), text]));
    let transforms = repaired.compile(TransformStage::Request, Some(previous)).unwrap();
    assert!(matches!(
        transforms.as_slice(),
        [ProxyTransform::AppendJson { .. }, ProxyTransform::AppendText { .. }]
    ));
}

#[test]
fn unchanged_template_is_not_compiled_again() {
    let list = parse(json!([append("append_json"), append("append_header")])).unwrap();
    let compiled = list.compile(TransformStage::Request, None).unwrap();
    let previous = CompiledTransforms { list: &list, transforms: &compiled };
    let changed = parse(json!([append("append_header")])).unwrap();
    let again = changed.compile(TransformStage::Request, Some(previous)).unwrap();
    let address = |it: &ProxyTransform| std::ptr::from_ref(it.template().unwrap().message());
    assert_eq!(address(&again[0]), address(&compiled[1]));
}
