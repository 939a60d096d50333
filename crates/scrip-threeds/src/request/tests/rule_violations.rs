//! Each rule, satisfied and violated. A test checks that every rule of the table is covered.

mod emv;
mod optional;
mod required;

use std::collections::BTreeSet;

use super::*;

type FixtureChange = fn(&mut RequestFixture);

/// Number and path of a rule, the original request, a change that violates the rule, and a change
/// that does not.
type RuleCase = (u8, &'static str, fn() -> RequestFixture, FixtureChange, FixtureChange);

#[test]
fn complete_requests_violate_no_rule() {
    for fixture in [customer(), app(), merchant(), emv::merchant_mail_order()] {
        assert_eq!(fixture.violations(), []);
    }
}

#[test]
fn every_rule_has_a_satisfying_and_a_violating_request() {
    let mut covered = BTreeSet::new();
    let cases = required::CASES.iter().chain(optional::CASES).chain(emv::CASES);
    for (number, path, fixture, violate, satisfy) in cases {
        let mut violating = fixture();
        violate(&mut violating);
        let violations = violating.violations();
        let is_reported = violations.iter().any(|it| it.path == *path);
        assert!(is_reported, "rule {number} does not report {path}: {violations:?}");
        assert!(violating.build_areq().is_err(), "AReq that violates rule {number} for {path}");
        let context = violating.context();
        for rule in rules::rules().filter(|it| it.is_broken_in(&context)) {
            if (rule.number, rule.path) == (*number, *path) {
                covered.insert((rule.number, rule.path, rule.message));
            }
        }
        let mut satisfying = fixture();
        satisfy(&mut satisfying);
        assert_eq!(satisfying.violations(), [], "rule {number} for {path}");
        satisfying.build_areq().unwrap();
    }
    let all_rules: BTreeSet<_> =
        rules::rules().map(|it| (it.number, it.path, it.message)).collect();
    let uncovered: Vec<_> = all_rules.difference(&covered).collect();
    assert!(uncovered.is_empty(), "rules without a case: {uncovered:?}");
    let numbers: BTreeSet<_> = all_rules.iter().map(|it| it.0).collect();
    let expected: BTreeSet<_> = (4..=39).filter(|it| ![6, 36].contains(it)).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn rule_6_merchant_sessions_request_decoupled_by_default() {
    assert!(!customer().context().requests_decoupled());
    assert!(merchant().context().requests_decoupled());
    let mut no = merchant();
    no.request.request_decoupled_challenge = Some(false);
    assert!(!no.context().requests_decoupled());
}

/// EMV requires both attributes for instalments; the API does not.
#[test]
fn rule_36_recurring_data_with_installments_is_optional() {
    let mut given = customer();
    given.request.authentication_type = some("installment-transaction");
    assert!(given.build_areq().unwrap().recurring_expiry.is_some());
    given.purchase().recurring_expiration = None;
    given.purchase().recurring_frequency = None;
    assert!(given.build_areq().unwrap().recurring_expiry.is_none());
}

#[test]
fn violations_name_each_attribute_once() {
    let mut fixture = merchant();
    fixture.request.purchase_info = None;
    let paths: Vec<_> = fixture.violations().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["purchase_info"]);
}
