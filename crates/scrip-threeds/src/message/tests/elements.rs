//! Each element at the edges of its format, and one step past them.

use super::*;
use crate::fault::ErrorCode;

/// Elements that decide over others: another value of theirs is another kind of transaction.
const STEERING: &[&str] = &[
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
fn edges_are_accepted() {
    for case in few_cases() {
        let most = case.most();
        for field in case.fields.iter().filter(|it| most.contains_key(it.name)) {
            for sample in (field.samples)() {
                if STEERING.contains(&field.name) {
                    continue;
                }
                let mut object = most.clone();
                object.insert(field.name.to_owned(), sample);
                let read = case.parse(&object);
                assert!(read.is_ok(), "{} {:?} {}", field.name, read, case.label);
            }
        }
    }
}

#[test]
fn one_step_further_is_refused() {
    let mut refused = 0;
    for case in few_cases() {
        let most = case.most();
        for field in case.fields.iter().filter(|it| most.contains_key(it.name)) {
            for value in (field.refused)() {
                let mut object = most.clone();
                object.insert(field.name.to_owned(), value.clone());
                let Err(fault) = case.parse(&object) else {
                    panic!("{} {value} {}", field.name, case.label)
                };
                let named = fault.names.iter().any(|it| it.starts_with(field.name));
                assert!(named, "{} {fault:?} {}", field.name, case.label);
                names_are_ours(&fault);
                let codes = ["102", "201", "202", "203", "304"];
                assert!(codes.contains(&fault.code.code()), "{fault:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 2000, "the tables have been walked: {refused}");
}

#[test]
fn iso_codes_and_versions_have_codes_of_their_own() {
    let payment = cases().into_iter().find(|it| it.label.starts_with("AReq")).unwrap();
    for (name, value, code) in [
        ("purchaseCurrency", "999", ErrorCode::IsoCodeInvalid),
        ("purchaseCurrency", "USD", ErrorCode::FormatInvalid),
        ("merchantCountryCode", "901", ErrorCode::IsoCodeInvalid),
        ("messageVersion", "2.3.1", ErrorCode::VersionUnsupported),
        ("messageVersion", "2.2", ErrorCode::FormatInvalid),
    ] {
        let mut object = payment.least();
        object.insert(name.to_owned(), value.into());
        assert_eq!(payment.parse(&object), Err(Fault::at(code, name)), "{value}");
    }
}

#[test]
fn what_no_element_shows_alone() {
    let label = |label: &str| cases().into_iter().find(|it| it.label.contains(label)).unwrap();
    let old = |kind: &str, more: &str| {
        let all = cases().into_iter();
        let mut fit = all.filter(|it| it.scene.version == Version::V210);
        fit.find(|it| it.label.starts_with(kind) && it.label.contains(more)).unwrap()
    };
    let refuse = |case: Case, name: &str, value: &str| {
        let mut object = case.most();
        object.insert(name.to_owned(), value.into());
        let fault = case.parse(&object).unwrap_err();
        assert_eq!(fault, Fault::at(ErrorCode::FormatInvalid, name), "{name} {value}");
    };
    // Payments that nobody is there for, and newer wishes, are of 2.2.0.
    refuse(old("AReq", r#""deviceChannel": String("03")"#), "messageCategory", "01");
    refuse(old("AReq", r#""deviceChannel": String("03")"#), "threeRIInd", "10");
    refuse(old("AReq", ""), "threeDSRequestorChallengeInd", "05");
    refuse(old("ARes", r#"String("N")"#), "transStatusReason", "22");
    refuse(old("RReq", r#"String("N")"#), "transStatusReason", "26");
    refuse(label("RReq"), "transStatus", "I");
    refuse(old("ARes", r#"String("Y")"#), "transStatus", "I");
    refuse(label("CRes"), "transStatus", "A");
}
