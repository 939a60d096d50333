//! Each rule, kept and broken. The table of rules is counted off at the end.

mod emv;
mod optional;
mod required;

use std::collections::BTreeSet;

use super::*;

type Change = fn(&mut Fixture);

/// Number and path of a rule; the request to begin with; a change that breaks it, and one that does
/// not.
type Case = (u8, &'static str, fn() -> Fixture, Change, Change);

#[test]
fn what_breaks_nothing() {
    for fixture in [customer(), app(), merchant(), emv::alone()] {
        assert_eq!(fixture.violations(), []);
    }
}

#[test]
fn every_rule_is_kept_and_broken() {
    let mut seen = BTreeSet::new();
    let cases = required::CASES.iter().chain(optional::CASES).chain(emv::CASES);
    for (number, path, fixture, breaks, keeps) in cases {
        let mut broken = fixture();
        breaks(&mut broken);
        let found = broken.violations();
        assert!(found.iter().any(|it| it.path == *path), "{number} {path} {found:?}");
        assert!(broken.make().is_err(), "{number} {path}");
        let situation = broken.situation();
        for rule in rules::rules().filter(|it| it.is_broken_in(&situation)) {
            if (rule.number, rule.path) == (*number, *path) {
                seen.insert((rule.number, rule.path, rule.message));
            }
        }
        let mut kept = fixture();
        keeps(&mut kept);
        assert_eq!(kept.violations(), [], "{number} {path}");
        kept.make().unwrap();
    }
    let all: BTreeSet<_> = rules::rules().map(|it| (it.number, it.path, it.message)).collect();
    let untried: Vec<_> = all.difference(&seen).collect();
    assert!(untried.is_empty(), "{untried:?}");
    let numbers: BTreeSet<_> = all.iter().map(|it| it.0).collect();
    let expected: BTreeSet<_> = (4..=39).filter(|it| ![6, 36].contains(it)).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn rule_6_is_a_default() {
    assert!(!customer().situation().decoupled());
    assert!(merchant().situation().decoupled());
    let mut no = merchant();
    no.request.request_decoupled_challenge = Some(false);
    assert!(!no.situation().decoupled());
}

/// EMV would like both of these with instalments; the interface does not ask for them.
#[test]
fn rule_36_forwards_and_does_not_refuse() {
    let mut given = customer();
    given.request.authentication_type = some("installment-transaction");
    assert!(given.make().unwrap().recurring_expiry.is_some());
    given.purchase().recurring_expiration = None;
    given.purchase().recurring_frequency = None;
    assert!(given.make().unwrap().recurring_expiry.is_none());
}

#[test]
fn an_attribute_is_named_once() {
    let mut fixture = merchant();
    fixture.request.purchase_info = None;
    let paths: Vec<_> = fixture.violations().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["purchase_info"]);
}
