//! Values of each element at the limits of its format, and values just outside the format.

use super::*;
use crate::fault::ErrorCode;

/// Elements that decide which other elements are present: another value needs another message.
const CONTROLLING_ELEMENTS: &[&str] = &[
    "messageVersion",
    "deviceChannel",
    "messageCategory",
    "transStatus",
    "challengeCompletionInd",
    "threeRIInd",
    "threeDSRequestorChallengeInd",
    "threeDSRequestorAuthenticationInd",
    "transStatusReason",
];

#[test]
fn element_values_at_the_limits_of_their_format_are_accepted() {
    for case in representative_cases() {
        let message = case.largest_message();
        for field in case.fields.iter().filter(|it| message.contains_key(it.name)) {
            for sample in (field.samples)() {
                if CONTROLLING_ELEMENTS.contains(&field.name) {
                    continue;
                }
                let mut object = message.clone();
                object.insert(field.name.to_owned(), sample);
                let result = case.parse(&object);
                let (name, label) = (field.name, &case.label);
                assert!(result.is_ok(), "{name} is rejected with {result:?} in {label}");
            }
        }
    }
}

#[test]
fn element_values_outside_their_format_are_rejected() {
    let mut rejected_count = 0;
    for case in representative_cases() {
        let message = case.largest_message();
        for field in case.fields.iter().filter(|it| message.contains_key(it.name)) {
            for value in (field.invalid_samples)() {
                let mut object = message.clone();
                object.insert(field.name.to_owned(), value.clone());
                let (name, label) = (field.name, &case.label);
                let Err(fault) = case.parse(&object) else {
                    panic!("{name} with the value {value} is accepted in {label}")
                };
                let is_named = fault.elements.iter().any(|it| it.starts_with(name));
                assert!(is_named, "{fault:?} does not name {name} in {label}");
                assert_elements_are_known(&fault);
                let codes = ["102", "201", "202", "203", "304"];
                let has_known_code = codes.contains(&fault.code.code());
                assert!(has_known_code, "{name} has an unexpected error code: {fault:?}");
                rejected_count += 1;
            }
        }
    }
    assert!(rejected_count > 2000, "too few elements tested: {rejected_count}");
}

#[test]
fn invalid_iso_codes_and_versions_have_specific_error_codes() {
    let case = cases().into_iter().find(|it| it.label.starts_with("AReq")).unwrap();
    for (name, value, code) in [
        ("purchaseCurrency", "999", ErrorCode::IsoCodeInvalid),
        ("purchaseCurrency", "USD", ErrorCode::FormatInvalid),
        ("merchantCountryCode", "901", ErrorCode::IsoCodeInvalid),
        ("messageVersion", "2.3.1", ErrorCode::VersionUnsupported),
        ("messageVersion", "2.2", ErrorCode::FormatInvalid),
    ] {
        let mut object = case.smallest_message();
        object.insert(name.to_owned(), value.into());
        let expected = Err(Fault::for_element(code, name));
        assert_eq!(case.parse(&object), expected, "{name} with the value {value}");
    }
}

#[test]
fn element_values_that_contradict_the_version_or_the_message_are_rejected() {
    let find_case = |label: &str| cases().into_iter().find(|it| it.label.contains(label)).unwrap();
    let find_case_of_version_210 = |message_type: &str, element: &str| {
        let mut cases = cases().into_iter().filter(|it| it.transaction.version == Version::V210);
        let is_match =
            |it: &MessageCase| it.label.starts_with(message_type) && it.label.contains(element);
        cases.find(is_match).unwrap()
    };
    let requestor_initiated =
        || find_case_of_version_210("AReq", r#""deviceChannel": String("03")"#);
    let assert_rejected = |case: MessageCase, name: &str, value: &str| {
        let mut object = case.largest_message();
        object.insert(name.to_owned(), value.into());
        let fault = case.parse(&object).unwrap_err();
        let expected = Fault::for_element(ErrorCode::FormatInvalid, name);
        assert_eq!(fault, expected, "{name} with the value {value}");
    };
    // Version 2.2.0 added payments without a cardholder, and these preferences and reasons.
    assert_rejected(requestor_initiated(), "messageCategory", "01");
    assert_rejected(requestor_initiated(), "threeRIInd", "10");
    let failed_ares = find_case_of_version_210("ARes", r#"String("N")"#);
    let failed_rreq = find_case_of_version_210("RReq", r#"String("N")"#);
    let successful_ares = find_case_of_version_210("ARes", r#"String("Y")"#);
    assert_rejected(find_case_of_version_210("AReq", ""), "threeDSRequestorChallengeInd", "05");
    assert_rejected(failed_ares, "transStatusReason", "22");
    assert_rejected(failed_rreq, "transStatusReason", "26");
    assert_rejected(find_case("RReq"), "transStatus", "I");
    assert_rejected(successful_ares, "transStatus", "I");
    assert_rejected(find_case("CRes"), "transStatus", "A");
}
