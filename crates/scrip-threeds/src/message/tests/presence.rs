//! Required, optional and forbidden elements.

use serde_json::{Value, json};

use super::*;
use crate::fault::ErrorCode;

#[test]
fn smallest_and_largest_messages_round_trip() {
    for case in cases() {
        for object in [case.smallest_message(), case.largest_message()] {
            let parsed = case.parse(&object);
            assert_eq!(parsed, Ok(Value::Object(object)), "{}", case.label);
        }
    }
}

#[test]
fn missing_required_element_is_rejected() {
    let mut missing_count = 0;
    for case in cases() {
        for field in case.fields {
            let mut object = case.smallest_message();
            let was_present = object.remove(field.name).is_some();
            // Without a status or a channel, the presence of other elements is not known.
            if !was_present || case.presence(field, &object) != ElementPresence::Required {
                continue;
            }
            let fault = case.parse(&object).unwrap_err();
            if field.name == "messageVersion" && fault.elements == ["messageVersion"] {
                continue;
            }
            let (name, label) = (field.name, &case.label);
            assert_eq!(fault.code, ErrorCode::ElementMissing, "without {name} in {label}");
            let is_named = fault.elements.contains(&name.to_owned());
            assert!(is_named, "{fault:?} does not name {name} in {label}");
            let controlling = ["deviceChannel", "messageCategory", "transStatus", "errorCode"];
            if !controlling.contains(&field.name) {
                assert_eq!(fault.elements, [field.name], "{}", case.label);
            }
            missing_count += 1;
        }
    }
    assert!(missing_count > 1000, "too few elements tested: {missing_count}");
}

#[test]
fn forbidden_element_is_rejected() {
    let mut rejected_elements = std::collections::BTreeSet::new();
    for case in cases() {
        for field in case.fields {
            let mut object = case.smallest_message();
            if case.presence(field, &object) != ElementPresence::Forbidden {
                continue;
            }
            object.insert(field.name.to_owned(), (field.samples)().swap_remove(0));
            let fault = case.parse(&object).unwrap_err();
            assert_eq!(
                fault,
                Fault::for_element(ErrorCode::FormatInvalid, field.name),
                "{}",
                case.label
            );
            rejected_elements.insert(field.name);
        }
    }
    for name in ["browserIP", "sdkTransID", "threeRIInd", "threeDSCompInd", "notificationURL"] {
        assert!(rejected_elements.contains(name), "{name}");
    }
    for name in ["acsURL", "acsSignedContent", "whiteListStatusSource", "transStatus"] {
        assert!(rejected_elements.contains(name), "{name}");
    }
}

#[test]
fn element_of_a_newer_version_is_ignored() {
    let mut ignored_elements = std::collections::BTreeSet::new();
    for case in cases() {
        for field in case.fields {
            let message = case.smallest_message();
            if case.presence(field, &message) != ElementPresence::NotInVersion {
                continue;
            }
            let mut object = message.clone();
            object.insert(field.name.to_owned(), json!({"anything": [1]}));
            assert_eq!(case.parse(&object), Ok(Value::Object(message)), "{}", case.label);
            ignored_elements.insert(field.name);
        }
    }
    for name in ["threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "whiteListStatus"] {
        assert!(ignored_elements.contains(name), "{name}");
    }
    assert!(
        ignored_elements.contains("browserJavascriptEnabled")
            && ignored_elements.contains("acsDecConInd")
    );
}

#[test]
fn unknown_element_is_ignored() {
    for case in representative_cases() {
        let message = case.largest_message();
        let mut object = message.clone();
        object.insert("trustListStatus".to_owned(), json!([{"a": 1.5}]));
        assert_eq!(case.parse(&object), Ok(Value::Object(message)), "{}", case.label);
    }
}

#[test]
fn duplicate_element_is_rejected() {
    for case in representative_cases() {
        let message = case.largest_message();
        let text = serde_json::to_string(&message).unwrap();
        for name in message.keys().filter(|it| *it != "messageType") {
            let duplicate = format!("{{\"{name}\":null,{}", &text[1..]);
            let fault = case.parse_bytes(duplicate.as_bytes()).unwrap_err();
            assert_eq!(
                fault,
                Fault::for_element(ErrorCode::ElementDuplicate, name),
                "{}",
                case.label
            );
        }
        let unknown_duplicate =
            format!("{{\"4000000000000000\":1,\"4000000000000000\":1,{}", &text[1..]);
        let fault = case.parse_bytes(unknown_duplicate.as_bytes()).unwrap_err();
        assert_eq!(fault, Fault::new(ErrorCode::ElementDuplicate), "the name is not in our tables");
    }
}
