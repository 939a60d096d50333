//! Any bytes give a message, or a fault with known element names. They never cause a panic.

use std::sync::LazyLock;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::fault::ErrorCode;

/// Built once, because a property has many cases.
static CASES: LazyLock<Vec<MessageCase>> = LazyLock::new(representative_cases);

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|it| json!(it)),
        "\\PC{0,40}".prop_map(Value::from),
        "[0-9]{0,20}".prop_map(Value::from),
        "[A-Z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[a-zA-Z]{1,12}", inner), 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// Returns whether every part of the first value is in the second.
fn is_subset(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, it)| whole.get(name).is_some_and(|whole| is_subset(it, whole)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len()
                && part.iter().zip(whole).all(|(part, it)| is_subset(part, it))
        }
        (part, whole) => part == whole,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_bytes_return_a_fault(bytes in vec(any::<u8>(), 0..400)) {
        for case in CASES.iter() {
            let fault = case.parse_bytes(&bytes).unwrap_err();
            assert_elements_are_known(&fault);
        }
    }

    #[test]
    fn message_with_changed_bytes_never_panics(
        pick in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let case = pick.get(&CASES[..]);
        let mut bytes = serde_json::to_vec(&case.largest_message()).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Err(fault) = case.parse_bytes(&bytes) {
            assert_elements_are_known(&fault);
        }
    }

    #[test]
    fn message_with_changed_values_is_rejected_or_preserved(
        pick in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), json_value()), 1..4),
    ) {
        let case = pick.get(&CASES[..]);
        let mut object = case.largest_message();
        for (at, value) in changes {
            let field = at.get(case.fields);
            object.insert(field.name.to_owned(), value);
        }
        match case.parse(&object) {
            // An accepted message is written as received, except for ignored elements.
            Ok(written) => prop_assert!(is_subset(&written, &Value::Object(object))),
            Err(fault) => {
                assert_elements_are_known(&fault);
                prop_assert_ne!(fault.code, ErrorCode::MessageInvalid);
            }
        }
    }

    #[test]
    fn arbitrary_json_returns_a_fault_with_known_elements(value in json_value(), kind in "[PACR]Re[qs]|Erro") {
        let object = json!({"messageType": kind, "messageVersion": "2.2.0", "acctInfo": value});
        for case in CASES.iter() {
            if let Err(fault) = case.parse(object.as_object().unwrap()) {
                assert_elements_are_known(&fault);
            }
        }
    }
}
