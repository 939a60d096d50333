//! Parsing of proxies and merging of patches.

use serde_json::json;

use super::*;

fn parse(body: Value) -> Result<ProxyDraft, Vec<String>> {
    parse_draft(Plaintext::new(body), LoopbackDestinations::Rejected).map_err(|it| {
        let ParseError::Failed(Error::Invalid(errors)) = it else { panic!("{it:?}") };
        errors.into_iter().map(|it| it.field.into_owned()).collect()
    })
}

fn changed(changes: Value) -> Result<ProxyDraft, Vec<String>> {
    let mut body = json!({"name": "shop", "destination_url": "https://example.com/v1"});
    json_patch::merge(&mut body, &changes);
    parse(body)
}

#[test]
fn absent_attributes_of_a_proxy_have_their_defaults() {
    let draft = changed(json!({})).unwrap();
    assert_eq!(draft.destination.as_str(), "https://example.com/v1");
    assert!(draft.require_auth && !draft.disable_detokenization);
    assert_eq!((draft.application, draft.timeout), (None, None));
    assert!(draft.configuration.is_none() && draft.authorities.is_none());
    assert_eq!(draft.tls_min, TlsMinimum::Tls12);
}

#[test]
fn invalid_attributes_of_a_proxy_are_named() {
    for (changes, field) in [
        (json!({"name": null}), "name"),
        (json!({"name": "x".repeat(201)}), "name"),
        (json!({"destination_url": null}), "destination_url"),
        (json!({"destination_url": "http://example.com"}), "destination_url"),
        (json!({"destination_url": "http://localhost"}), "destination_url"),
        (json!({"destination_url": 7}), "destination_url"),
        (json!({"request_transform": "x"}), "request_transform"),
        (json!({"request_transform": {"type": "x"}}), "request_transform.type"),
        (json!({"request_transforms": {}}), "request_transforms"),
        (json!({"request_transforms": [7]}), "request_transforms[0]"),
        (json!({"request_transforms": [{}]}), "request_transforms[0].code"),
        (
            json!({"response_transforms": [{"type": "mask", "matcher": "x"}]}),
            "response_transforms[0].matcher",
        ),
        (
            json!({"response_transforms": [{"type": "append_text", "options": {"value": 1}}]}),
            "response_transforms[0].options.value",
        ),
        (
            json!({"request_transform": {"code": "x"}, "request_transforms": []}),
            "request_transform",
        ),
        (json!({"application": "x"}), "application"),
        (json!({"application": {"id": "x"}}), "application.id"),
        (json!({"application": {}}), "application.id"),
        (json!({"configuration": []}), "configuration"),
        (json!({"configuration": {"a": 1}}), "configuration"),
        (json!({"configuration": {"a": "x".repeat(32 * 1024)}}), "configuration"),
        (json!({"configuration": {"": "x"}}), "configuration"),
        (json!({"require_auth": "true"}), "require_auth"),
        (json!({"disable_detokenization": 1}), "disable_detokenization"),
        (json!({"timeout": 0}), "timeout"),
        (json!({"timeout": 61}), "timeout"),
        (json!({"tls_min": "1.1"}), "tls_min"),
        (json!({"request_reactor_id": "x"}), "request_reactor_id"),
        (json!({"response_reactor_id": "x"}), "response_reactor_id"),
    ] {
        assert_eq!(changed(changes.clone()).unwrap_err(), [field], "{changes}");
    }
}

#[test]
fn patch_with_one_form_of_transforms_replaces_the_other_form() {
    let merged = |attributes: Value, patch: Value| {
        let Value::Object(attributes) = attributes else { panic!("not an object") };
        merge_patch(attributes, &patch).into_exposed()
    };
    let single = json!({"request_transform": {"code": "x"}, "configuration": {"a": "1", "b": "2"}});
    let patch = json!({"request_transforms": [], "configuration": {"a": null, "c": "3"}});
    let expected = json!({"request_transforms": [], "configuration": {"b": "2", "c": "3"}});
    assert_eq!(merged(single.clone(), patch), expected);
    let patch = json!({"response_transform": {"code": "y"}});
    let array = json!({"response_transforms": [{"code": "x"}]});
    assert_eq!(merged(array, patch), json!({"response_transform": {"code": "y"}}));
    let patch = json!({"name": "x", "request_transforms": null});
    let expected = json!({"request_transform": {"code": "x"}, "configuration": {"a": "1", "b": "2"}, "name": "x"});
    assert_eq!(merged(single, patch), expected);
}
