//! The rules of the catalog. Invalid entries fail these tests, not a request.

use std::collections::BTreeSet;

use crate::card::connection_formula::{
    CATALOG, CredentialField,
    tests::iso::{COUNTRIES, CURRENCIES, NON_CURRENCY_CODES},
};

/// The processors in the order of the API.
#[rustfmt::skip]
const IDS: [&str; 18] = [
    "adyen-card", "authipay-card", "authorizenet-card", "braintree-card", "chaseorbital-card",
    "checkoutcom-card", "cybersource-card", "dlocal-card", "ebanx-card", "fiserv-card", "nmi-card",
    "nuvei-card", "planet-card", "razorpay-card", "stripe-card", "trustpayments-card",
    "usaepay-card", "worldpayvap-card",
];

fn is_sorted_set(codes: &[&str]) -> bool {
    codes.is_sorted_by(|a, b| a < b)
}

fn is_snake_case(key: &str) -> bool {
    let is_word = |it: &str| {
        !it.is_empty() && it.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
    };
    key.split('_').all(is_word) && key.starts_with(|it: char| it.is_ascii_lowercase())
}

#[test]
fn iso_code_lists_are_complete_and_sorted() {
    assert_eq!((CURRENCIES.len(), NON_CURRENCY_CODES.len(), COUNTRIES.len()), (155, 23, 249));
    for (codes, length) in [(CURRENCIES, 3), (NON_CURRENCY_CODES, 3), (COUNTRIES, 2)] {
        assert!(is_sorted_set(codes));
        let is_code = |it: &str| it.len() == length && it.bytes().all(|it| it.is_ascii_uppercase());
        assert!(codes.iter().all(|it| is_code(it)));
    }
    assert!(NON_CURRENCY_CODES.iter().all(|it| !CURRENCIES.contains(it)));
}

#[test]
fn catalog_has_the_eighteen_processors_of_the_api() {
    assert!(CATALOG.iter().map(|it| it.id).eq(IDS));
    let names: BTreeSet<_> = CATALOG.iter().map(|it| it.display_name).collect();
    assert_eq!(names.len(), IDS.len());
    for name in names {
        assert!(!name.is_empty() && name.trim() == name, "display name {name:?}");
    }
}

#[test]
fn catalog_uses_only_current_iso_codes() {
    for formula in CATALOG.iter() {
        for (codes, iso_codes) in
            [(&formula.currencies, CURRENCIES), (&formula.countries, COUNTRIES)]
        {
            assert!(!codes.is_empty(), "{}: no codes", formula.id);
            assert!(is_sorted_set(codes), "{}: not sorted or not unique", formula.id);
            let unknown: Vec<_> = codes.iter().filter(|it| !iso_codes.contains(it)).collect();
            assert!(unknown.is_empty(), "{}: unknown codes {unknown:?}", formula.id);
        }
    }
}

#[test]
fn catalog_fields_are_unique_and_one_is_a_required_secret() {
    for formula in CATALOG.iter() {
        let keys: BTreeSet<_> = formula.fields.iter().map(|it| it.key).collect();
        assert_eq!(keys.len(), formula.fields.len(), "{}: duplicate key", formula.id);
        assert!(
            keys.iter().all(|it| is_snake_case(it)),
            "{}: keys {keys:?} are not in snake case",
            formula.id
        );
        assert!(
            formula.fields.iter().all(|it| !it.display_name.is_empty()),
            "{}: empty name",
            formula.id
        );
        let is_required_secret = |it: &CredentialField| it.secret && it.required;
        assert!(
            formula.fields.iter().any(is_required_secret),
            "{}: no required secret",
            formula.id
        );
    }
    for key in ["", "apiKey", "_a", "a_", "a__b", "1a", "a-b"] {
        assert!(!is_snake_case(key), "{key:?} is accepted");
    }
}

/// A partial operation requires the full operation.
#[test]
fn catalog_features_do_not_contradict_each_other() {
    for formula in CATALOG.iter() {
        let features = &formula.features;
        assert!(
            features.delayed_capture || !features.partial_capture,
            "{}: partial capture",
            formula.id
        );
        assert!(features.delayed_capture || !features.void, "{}: void", formula.id);
        assert!(features.refunds || !features.partial_refunds, "{}: partial refunds", formula.id);
    }
}

#[test]
fn every_connection_formula_names_its_sources() {
    for formula in CATALOG.iter() {
        let sources = &formula.sources;
        let (year, month) = sources.reviewed_in.split_once('-').unwrap();
        let month: u8 = month.parse().unwrap();
        assert!(year.starts_with("20") && year.len() == 4, "{}: year {year}", formula.id);
        assert!((1..=12).contains(&month), "{}: month {month}", formula.id);
        let texts = [sources.credentials, sources.currencies, sources.countries, sources.features];
        for text in texts.into_iter().chain(sources.note) {
            assert!(
                text.len() >= "the same".len() && text.trim() == text,
                "{}: source {text:?}",
                formula.id
            );
        }
    }
}

mod iso;
