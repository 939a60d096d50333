//! What must be there, what may, and what must not.

use serde_json::{Value, json};

use super::*;
use crate::fault::ErrorCode;

#[test]
fn messages_come_back_as_they_went_in() {
    for case in cases() {
        for object in [case.least(), case.most()] {
            let read = case.parse(&object);
            assert_eq!(read, Ok(Value::Object(object)), "{}", case.label);
        }
    }
}

#[test]
fn what_is_required_is_missed() {
    let mut missed = 0;
    for case in cases() {
        for field in case.fields {
            let mut object = case.least();
            let present = object.remove(field.name).is_some();
            // Without a status or a channel the other needs are not known.
            if !present || case.need(field, &object) != Need::Required {
                continue;
            }
            let fault = case.parse(&object).unwrap_err();
            if field.name == "messageVersion" && fault.names == ["messageVersion"] {
                continue;
            }
            assert_eq!(fault.code, ErrorCode::ElementMissing, "{} {}", field.name, case.label);
            assert!(fault.names.contains(&field.name.to_owned()), "{} {fault:?}", field.name);
            let steers = ["deviceChannel", "messageCategory", "transStatus", "errorCode"];
            if !steers.contains(&field.name) {
                assert_eq!(fault.names, [field.name], "{}", case.label);
            }
            missed += 1;
        }
    }
    assert!(missed > 1000, "the tables have been walked: {missed}");
}

#[test]
fn what_contradicts_the_rest_is_refused() {
    let mut refused = std::collections::BTreeSet::new();
    for case in cases() {
        for field in case.fields {
            let mut object = case.least();
            if case.need(field, &object) != Need::Never {
                continue;
            }
            object.insert(field.name.to_owned(), (field.samples)().swap_remove(0));
            let fault = case.parse(&object).unwrap_err();
            assert_eq!(fault, Fault::at(ErrorCode::FormatInvalid, field.name), "{}", case.label);
            refused.insert(field.name);
        }
    }
    for name in ["browserIP", "sdkTransID", "threeRIInd", "threeDSCompInd", "notificationURL"] {
        assert!(refused.contains(name), "{name}");
    }
    for name in ["acsURL", "acsSignedContent", "whiteListStatusSource", "transStatus"] {
        assert!(refused.contains(name), "{name}");
    }
}

#[test]
fn what_a_version_does_not_have_is_passed_over() {
    let mut passed = std::collections::BTreeSet::new();
    for case in cases() {
        for field in case.fields {
            let least = case.least();
            if case.need(field, &least) != Need::Unknown {
                continue;
            }
            let mut object = least.clone();
            object.insert(field.name.to_owned(), json!({"anything": [1]}));
            assert_eq!(case.parse(&object), Ok(Value::Object(least)), "{}", case.label);
            passed.insert(field.name);
        }
    }
    for name in ["threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "whiteListStatus"] {
        assert!(passed.contains(name), "{name}");
    }
    assert!(passed.contains("browserJavascriptEnabled") && passed.contains("acsDecConInd"));
}

#[test]
fn what_nobody_knows_is_passed_over() {
    for case in few_cases() {
        let most = case.most();
        let mut object = most.clone();
        object.insert("trustListStatus".to_owned(), json!([{"a": 1.5}]));
        assert_eq!(case.parse(&object), Ok(Value::Object(most)), "{}", case.label);
    }
}

#[test]
fn a_name_stands_once() {
    for case in few_cases() {
        let most = case.most();
        let text = serde_json::to_string(&most).unwrap();
        for name in most.keys().filter(|it| *it != "messageType") {
            let twice = format!("{{\"{name}\":null,{}", &text[1..]);
            let fault = case.parse_bytes(twice.as_bytes()).unwrap_err();
            assert_eq!(fault, Fault::at(ErrorCode::ElementDuplicate, name), "{}", case.label);
        }
        let foreign = format!("{{\"4000000000000000\":1,\"4000000000000000\":1,{}", &text[1..]);
        let fault = case.parse_bytes(foreign.as_bytes()).unwrap_err();
        assert_eq!(fault, Fault::of(ErrorCode::ElementDuplicate), "the name is not ours to tell");
    }
}
