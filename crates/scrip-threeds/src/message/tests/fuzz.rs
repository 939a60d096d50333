//! Whatever bytes come, there is a message or a fault with names of ours. Never a panic.

use std::sync::LazyLock;

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::fault::ErrorCode;

/// Built once; the cases of a property are many.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(few_cases);

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
fn is_within(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, it)| other.get(name).is_some_and(|other| is_within(it, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, it)| is_within(one, it))
        }
        (one, other) => one == other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..400)) {
        for case in CASES.iter() {
            let fault = case.parse_bytes(&bytes).unwrap_err();
            names_are_ours(&fault);
        }
    }

    #[test]
    fn a_message_with_bytes_of_it_changed(
        pick in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let case = pick.get(&CASES[..]);
        let mut bytes = serde_json::to_vec(&case.most()).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Err(fault) = case.parse_bytes(&bytes) {
            names_are_ours(&fault);
        }
    }

    #[test]
    fn a_message_with_values_of_it_changed(
        pick in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), json_value()), 1..4),
    ) {
        let case = pick.get(&CASES[..]);
        let mut object = case.most();
        for (at, value) in changes {
            let field = at.get(case.fields);
            object.insert(field.name.to_owned(), value);
        }
        match case.parse(&object) {
            // What was accepted is written as it came, but for what is passed over.
            Ok(written) => prop_assert!(is_within(&written, &Value::Object(object))),
            Err(fault) => {
                names_are_ours(&fault);
                prop_assert_ne!(fault.code, ErrorCode::MessageInvalid);
            }
        }
    }

    #[test]
    fn any_json_at_all(value in json_value(), kind in "[PACR]Re[qs]|Erro") {
        let object = json!({"messageType": kind, "messageVersion": "2.2.0", "acctInfo": value});
        for case in CASES.iter() {
            if let Err(fault) = case.parse(object.as_object().unwrap()) {
                names_are_ours(&fault);
            }
        }
    }
}
