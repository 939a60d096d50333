//! Canonical JSON: one text for each value, so that a receiver can verify the signature of a body
//! that it has parsed and written again.
//!
//! Names are sorted at every depth, in the order in which JavaScript sorts texts: by UTF-16 code
//! units. There is no white space. Texts are escaped as in JavaScript, numbers stay as they are.

use serde_json::{Map, Value};

/// The canonical text of a value.
pub(crate) fn to_canonical_json(value: &Value) -> String {
    let mut text = String::with_capacity(1024);
    write_value(value, &mut text);
    text
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Object(object) => write_object(object, text),
    }
}

fn write_object(object: &Map<String, Value>, text: &mut String) {
    let mut entries: Vec<_> = object.iter().collect();
    // The order of bytes differs for characters above U+FFFF: UTF-16 writes them with units below
    // those of U+E000 to U+FFFF.
    entries.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
    text.push('{');
    for (index, (name, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        write_value(value, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(input: &str, expected: &str) {
        let value: Value = serde_json::from_str(input).unwrap();
        assert_eq!(to_canonical_json(&value), expected, "{input}");
    }

    #[test]
    fn canonical_json_sorts_names_at_every_depth_without_spaces() {
        check(
            r#"{ "b": [ {"d": 1, "c": 2}, [ ] ], "a": { } }"#,
            r#"{"a":{},"b":[{"c":2,"d":1},[]]}"#,
        );
        check(r#"{"10": 1, "9": 2, "B": 3, "a": 4, "": 5}"#, r#"{"":5,"10":1,"9":2,"B":3,"a":4}"#);
        check(" [null, true, false]", "[null,true,false]");
    }

    #[test]
    fn canonical_json_sorts_names_by_utf16_code_units() {
        // 😀 is D83D DE00 in UTF-16 and comes before U+FF5E, although its bytes come after.
        check("{\"\u{ff5e}\":1,\"\u{1f600}\":2}", "{\"\u{1f600}\":2,\"\u{ff5e}\":1}");
    }

    #[test]
    fn canonical_json_escapes_texts_as_javascript_does() {
        check(r#"["\u00e9\u2028\/\u007f"]"#, "[\"\u{e9}\u{2028}/\u{7f}\"]");
        check(r#"["\b\f\n\r\t\u0001\u001F\"\\"]"#, r#"["\b\f\n\r\t\u0001\u001f\"\\"]"#);
    }

    #[test]
    fn canonical_json_keeps_numbers() {
        check(
            "[0, -1, 9007199254740991, 1.50, 12345678901234567890123]",
            "[0,-1,9007199254740991,1.50,12345678901234567890123]",
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            let name = prop_oneof![any::<String>(), "[a-c\u{e000}\u{ffff}\u{10000}]{0,3}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..8)
                    .prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    /// Reads the names of the top object in the order of the text.
    #[derive(Debug)]
    struct OrderedNames(Vec<Vec<u16>>);

    impl<'de> serde::Deserialize<'de> for OrderedNames {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct NameVisitor;
            impl<'de> serde::de::Visitor<'de> for NameVisitor {
                type Value = OrderedNames;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut entries: A,
                ) -> Result<OrderedNames, A::Error> {
                    let mut names = Vec::new();
                    while let Some((name, _)) =
                        entries.next_entry::<String, serde::de::IgnoredAny>()?
                    {
                        names.push(name.encode_utf16().collect());
                    }
                    Ok(OrderedNames(names))
                }
            }
            deserializer.deserialize_map(NameVisitor)
        }
    }

    proptest! {
        #[test]
        fn canonical_json_parses_to_the_same_value(value in any_json()) {
            let text = to_canonical_json(&value);
            let parsed: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&parsed, &value);
            prop_assert_eq!(to_canonical_json(&parsed), text);
        }

        #[test]
        fn canonical_json_has_sorted_names(
            entries in prop::collection::hash_map("[a\u{e000}\u{ffff}\u{10000}]{0,3}", any_json(), 0..6),
        ) {
            let value = Value::Object(entries.into_iter().collect());
            let names: OrderedNames = serde_json::from_str(&to_canonical_json(&value)).unwrap();
            prop_assert!(names.0.is_sorted());
        }

        #[test]
        fn canonical_json_is_as_short_as_compact_json(value in any_json()) {
            // The order of the names does not change the length; white space would.
            prop_assert_eq!(to_canonical_json(&value).len(), value.to_string().len());
        }
    }
}
