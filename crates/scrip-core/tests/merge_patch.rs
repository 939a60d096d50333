//! Merge patch: the examples of RFC 7386, and a model of its text.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The reference implementation: a null member removes, an object merges recursively, any other
/// value replaces.
fn model(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut result = target.as_object().cloned().unwrap_or_else(Map::new);
    for (name, value) in patch {
        if value.is_null() {
            result.remove(name);
        } else {
            let current = result.get(name).cloned().unwrap_or(Value::Null);
            result.insert(name.clone(), model(&current, value));
        }
    }
    Value::Object(result)
}

fn merge(target: &Value, patch: &Value) -> Value {
    let mut merged = target.clone();
    json_patch::merge(&mut merged, patch);
    merged
}

#[test]
fn merge_patch_matches_rfc_7386_examples() {
    let examples = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), Value::Null, Value::Null),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    for (target, patch, expected) in examples {
        assert_eq!(merge(&target, &patch), expected, "{target} merged with {patch}");
        assert_eq!(model(&target, &patch), expected, "model of {target} and {patch}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn merge_patch_agrees_with_model(target in value(), patch in value()) {
        prop_assert_eq!(merge(&target, &patch), model(&target, &patch));
    }

    #[test]
    fn merge_patch_is_idempotent(target in value(), patch in value()) {
        let merged = merge(&target, &patch);
        prop_assert_eq!(merge(&merged, &patch), merged);
    }
}
