//! Finding, changing and rejecting ranges, compared with a linear search.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    format::{Version, VersionNumber},
    message::{PRes, TransactionContext, parse_message},
};

const ID: &str = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";

fn pres(serial: &str, ranges: &[Value]) -> PRes {
    let mut object = json!({
        "messageType": "PRes", "messageVersion": "2.2.0", "threeDSServerTransID": ID,
        "dsTransID": ID, "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
        "serialNum": serial,
    });
    if !ranges.is_empty() {
        object["cardRangeData"] = ranges.into();
    }
    parse_message::<PRes>(
        object.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap()
}

fn range(action: &str, start: &str, end: &str) -> Value {
    json!({
        "startRange": start, "endRange": end, "actionInd": action,
        "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
    })
}

fn card(number: &str) -> CardNumber {
    CardNumber::parse(number).unwrap()
}

const LOW: [&str; 2] = ["4000000000000000", "4000009999999999"];
const HIGH: [&str; 2] = ["4100000000000000", "4199999999999999"];

fn two_ranges() -> CardRanges {
    let ranges = [range("A", LOW[0], LOW[1]), range("A", HIGH[0], HIGH[1])];
    CardRanges::from_pres(&pres("1", &ranges)).unwrap()
}

#[test]
fn find_returns_the_range_of_a_card() {
    let ranges = two_ranges();
    for (number, is_found) in [
        ("4000000000000000", true),
        ("4000009999999999", true),
        ("4000010000000000", false),
        ("3999999999999999", false),
        ("4100000000000000", true),
        ("4199999999999999", true),
        ("4200000000000000", false),
        ("400000000000000", false),
        ("40000000000000000", false),
        ("9999999999999999999", false),
        ("0000000000000", false),
    ] {
        assert_eq!(ranges.find(&card(number)).is_some(), is_found, "{number}");
    }
    let nineteen_digits = range("A", "9999999999999999000", "9999999999999999999");
    let nineteen_digits = CardRanges::from_pres(&pres("1", &[nineteen_digits])).unwrap();
    assert!(nineteen_digits.find(&card("9999999999999999999")).is_some());
}

#[test]
fn pres_adds_modifies_and_deletes_ranges() {
    let mut modified = range("M", LOW[0], LOW[1]);
    modified["threeDSMethodURL"] = "https://acs.example/m".into();
    modified["acsInfoInd"] = json!(["01", "80"]);
    let halves = [range("A", HIGH[0], "4149999999999999"), range("A", "4150000000000000", HIGH[1])];
    let deleted = json!({"startRange": HIGH[0], "endRange": HIGH[1], "actionInd": "D"});
    let changes = [halves[0].clone(), modified, deleted, halves[1].clone()];
    let ranges = two_ranges().apply_pres(&pres("2", &changes)).unwrap();
    assert_eq!((ranges.len(), ranges.serial_number().unwrap().expose()), (3, "2"));
    let modified_range = ranges.find(&card("4000000000000001")).unwrap();
    assert_eq!(modified_range.method_url.as_ref().unwrap().expose(), "https://acs.example/m");
    assert_eq!(modified_range.acs_information.len(), 2);
    assert!(ranges.find(&card("4175000000000000")).is_some());
    let unchanged = ranges.apply_pres(&pres("3", &[])).unwrap();
    assert_eq!((unchanged.len(), unchanged.serial_number().unwrap().expose()), (3, "3"));
}

#[test]
fn invalid_pres_is_rejected_and_changes_nothing() {
    let mut reversed_acs_versions = range("A", "5000000000000000", "5000000000000001");
    reversed_acs_versions["acsStartProtocolVersion"] = "2.3.0".into();
    let mut reversed_ds_versions = range("A", "5000000000000000", "5000000000000001");
    reversed_ds_versions["dsStartProtocolVersion"] = "2.3.0".into();
    let added = range("A", "5000000000000000", "5000000000000001");
    for (changes, fault) in [
        (vec![range("A", "5000000000000001", "5000000000000000")], RangeError::Reversed),
        (vec![range("A", "500000000000000", "5000000000000000")], RangeError::Reversed),
        (vec![reversed_acs_versions], RangeError::InvalidVersions),
        (vec![reversed_ds_versions], RangeError::InvalidVersions),
        (vec![range("A", "4000009999999999", "4050000000000000")], RangeError::Overlap),
        (vec![range("A", "3999999999999999", "4300000000000000")], RangeError::Overlap),
        (vec![range("A", LOW[0], LOW[1])], RangeError::Overlap),
        (vec![range("A", "4000000000000005", "4000000000000006")], RangeError::Overlap),
        (vec![range("M", LOW[0], "4000009999999998")], RangeError::Missing),
        (vec![range("D", "4000000000000001", LOW[1])], RangeError::Missing),
        (vec![range("D", LOW[0], LOW[1]), range("D", LOW[0], LOW[1])], RangeError::Duplicate),
        (vec![added.clone(), added], RangeError::Duplicate),
    ] {
        let valid_change = range("A", "6000000000000000", "6000000000000001");
        let changes: Vec<_> = [valid_change].into_iter().chain(changes).collect();
        assert_eq!(
            two_ranges().apply_pres(&pres("2", &changes)).unwrap_err(),
            fault,
            "{changes:?}"
        );
    }
    let deletion_from_empty = CardRanges::from_pres(&pres("1", &[range("D", LOW[0], LOW[1])]));
    assert_eq!(deletion_from_empty.unwrap_err(), RangeError::NothingToChange);
}

#[test]
fn negotiation_recommends_the_highest_common_version() {
    let span = |start: &str, end: &str| {
        let number = |it| VersionNumber::parse(it).unwrap();
        VersionSpan::new(number(start), number(end)).unwrap()
    };
    let both_versions = &[Version::V220, Version::V210][..];
    for (own_versions, ds, acs, expected) in [
        (both_versions, span("2.1.0", "2.2.0"), span("2.1.0", "2.2.0"), &["2.1.0", "2.2.0"][..]),
        (both_versions, span("2.1.0", "2.3.1"), span("2.2.0", "2.3.1"), &["2.2.0"]),
        (both_versions, span("2.1.0", "2.2.0"), span("1.0.2", "2.1.0"), &["2.1.0"]),
        (both_versions, span("2.1.0", "2.1.0"), span("2.2.0", "2.2.0"), &[]),
        (&[Version::V210], span("2.1.0", "2.2.0"), span("2.1.0", "2.2.0"), &["2.1.0"]),
        (&[], span("2.1.0", "2.2.0"), span("2.1.0", "2.2.0"), &[]),
    ] {
        let negotiated = negotiate_versions(own_versions, ds, acs);
        let available: Vec<_> =
            negotiated.iter().flat_map(|it| &it.available).map(|it| it.code()).collect();
        assert_eq!(available, expected);
        assert_eq!(negotiated.map(|it| it.recommended.code()), expected.last().copied());
    }
    let number = |it| VersionNumber::parse(it).unwrap();
    assert!(number("2.10.0") > number("2.9.9"));
    assert!(VersionSpan::new(number("2.2.0"), number("2.1.0")).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// Random changes in a small range of numbers, so that they collide.
    #[test]
    fn card_ranges_match_a_linear_list_model(steps in prop::collection::vec((0..3_usize, 0..40_u64, 0..6_u64), 1..40)) {
        let base = 4_000_000_000_000_000_u64;
        let mut ranges = CardRanges::default();
        let mut list: Vec<(u64, u64)> = Vec::new();
        for (kind, start, length) in steps {
            let (start, end) = (base + start, base + start + length);
            let change = range(["A", "M", "D"][kind], &start.to_string(), &end.to_string());
            let exists = list.contains(&(start, end));
            let overlaps = list.iter().any(|it| it.0 <= end && start <= it.1);
            let allowed = if kind == 0 { !overlaps } else { exists };
            match ranges.apply_pres(&pres("1", &[change])) {
                Ok(next) => {
                    prop_assert!(allowed);
                    ranges = next;
                    match kind {
                        0 => list.push((start, end)),
                        2 => list.retain(|it| *it != (start, end)),
                        _ => (),
                    }
                }
                Err(_) => prop_assert!(!allowed),
            }
        }
        for number in base..base + 60 {
            let expected = list.iter().any(|it| (it.0..=it.1).contains(&number));
            prop_assert_eq!(ranges.find(&card(&number.to_string())).is_some(), expected);
        }
    }
}
