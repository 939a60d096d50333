//! Each element at the edges of its format, and one step past them.

use super::*;
use crate::fault::ErrorCode;

/// Elements that decide over others: another value of theirs is another kind of transaction.
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
fn boundary_values_are_accepted() {
    for case in representative_cases() {
        let maximal = case.maximal();
        for field in case.fields.iter().filter(|it| maximal.contains_key(it.name)) {
            for sample in (field.samples)() {
                if CONTROLLING_ELEMENTS.contains(&field.name) {
                    continue;
                }
                let mut object = maximal.clone();
                object.insert(field.name.to_owned(), sample);
                let read = case.parse(&object);
                assert!(read.is_ok(), "{} {:?} {}", field.name, read, case.label);
            }
        }
    }
}

#[test]
fn values_beyond_the_boundary_are_rejected() {
    let mut rejected_count = 0;
    for case in representative_cases() {
        let maximal = case.maximal();
        for field in case.fields.iter().filter(|it| maximal.contains_key(it.name)) {
            for value in (field.invalid_samples)() {
                let mut object = maximal.clone();
                object.insert(field.name.to_owned(), value.clone());
                let Err(fault) = case.parse(&object) else {
                    panic!("{} {value} {}", field.name, case.label)
                };
                let is_named = fault.elements.iter().any(|it| it.starts_with(field.name));
                assert!(is_named, "{} {fault:?} {}", field.name, case.label);
                assert_elements_are_known(&fault);
                let codes = ["102", "201", "202", "203", "304"];
                assert!(codes.contains(&fault.code.code()), "{fault:?}");
                rejected_count += 1;
            }
        }
    }
    assert!(rejected_count > 2000, "the tables have been walked: {rejected_count}");
}

#[test]
fn invalid_iso_codes_and_versions_have_specific_error_codes() {
    let payment = cases().into_iter().find(|it| it.label.starts_with("AReq")).unwrap();
    for (name, value, code) in [
        ("purchaseCurrency", "999", ErrorCode::IsoCodeInvalid),
        ("purchaseCurrency", "USD", ErrorCode::FormatInvalid),
        ("merchantCountryCode", "901", ErrorCode::IsoCodeInvalid),
        ("messageVersion", "2.3.1", ErrorCode::VersionUnsupported),
        ("messageVersion", "2.2", ErrorCode::FormatInvalid),
    ] {
        let mut object = payment.minimal();
        object.insert(name.to_owned(), value.into());
        assert_eq!(payment.parse(&object), Err(Fault::for_element(code, name)), "{value}");
    }
}

#[test]
fn contradicting_elements_are_rejected() {
    let label = |label: &str| cases().into_iter().find(|it| it.label.contains(label)).unwrap();
    let case_210 = |kind: &str, more: &str| {
        let all = cases().into_iter();
        let mut fit = all.filter(|it| it.transaction.version == Version::V210);
        fit.find(|it| it.label.starts_with(kind) && it.label.contains(more)).unwrap()
    };
    let assert_rejected = |case: MessageCase, name: &str, value: &str| {
        let mut object = case.maximal();
        object.insert(name.to_owned(), value.into());
        let fault = case.parse(&object).unwrap_err();
        assert_eq!(fault, Fault::for_element(ErrorCode::FormatInvalid, name), "{name} {value}");
    };
    // Payments that nobody is there for, and newer wishes, are of 2.2.0.
    assert_rejected(case_210("AReq", r#""deviceChannel": String("03")"#), "messageCategory", "01");
    assert_rejected(case_210("AReq", r#""deviceChannel": String("03")"#), "threeRIInd", "10");
    assert_rejected(case_210("AReq", ""), "threeDSRequestorChallengeInd", "05");
    assert_rejected(case_210("ARes", r#"String("N")"#), "transStatusReason", "22");
    assert_rejected(case_210("RReq", r#"String("N")"#), "transStatusReason", "26");
    assert_rejected(label("RReq"), "transStatus", "I");
    assert_rejected(case_210("ARes", r#"String("Y")"#), "transStatus", "I");
    assert_rejected(label("CRes"), "transStatus", "A");
}
