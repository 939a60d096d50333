//! Whatever bytes come, there is a message or a fault with names of ours. Never a panic.

use std::sync::LazyLock;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::fault::ErrorCode;

/// Built once; the cases of a property are many.
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

/// Nothing is in the first that is not in the second.
fn is_subset(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, it)| other.get(name).is_some_and(|other| is_subset(it, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, it)| is_subset(one, it))
        }
        (one, other) => one == other,
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
        let mut bytes = serde_json::to_vec(&case.maximal()).unwrap();
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
        let mut object = case.maximal();
        for (at, value) in changes {
            let field = at.get(case.fields);
            object.insert(field.name.to_owned(), value);
        }
        match case.parse(&object) {
            // What was accepted is written as it came, but for what is passed over.
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
