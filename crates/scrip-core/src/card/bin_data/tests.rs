//! BIN data: compared with a linear scan, decoded from arbitrary bytes, and checked for its size
//! limits.

use proptest::prelude::*;

use super::{table::BinRange, *};
use crate::card::{fields::bin_len, mask_number};

fn any_details() -> impl Strategy<Value = BinDetails> {
    let brand = prop::option::of(prop::sample::select(Brand::ALL.to_vec()));
    let funding = prop::option::of(prop::sample::select(Funding::ALL.to_vec()));
    let country = prop::option::of(prop::sample::select(vec!["FR", "US", "GB"]));
    let digits = prop::option::of(prop::sample::select(BinDigits::ALL.to_vec()));
    (brand, funding, country, digits).prop_map(|(brand, funding, country, bin_digits)| BinDetails {
        brand,
        funding,
        country: country.and_then(Country::parse),
        bin_digits,
        additional: AdditionalBrands::default(),
    })
}

/// Ranges over few numbers, so that they touch and overlap in every way. Some ranges are at the end
/// of all numbers.
fn any_rows() -> impl Strategy<Value = Vec<BinRow>> {
    let row = (0_u32..400, 0_u32..150, any::<bool>(), any_details());
    let row = row.prop_map(|(from, width, is_at_end, details)| {
        let base = if is_at_end { 99_999_600 } else { 41_234_500 };
        let from = base + from;
        BinRow { range: PrefixRange { from, to: (from + width).min(99_999_999) }, details }
    });
    prop::collection::vec(row, 0..12)
}

/// The documented rules, without optimizations.
fn reference_lookup(rows: &[BinRow], prefix: u32) -> Option<BinDetails> {
    let contains_prefix = |it: &&BinRow| (it.range.from..=it.range.to).contains(&prefix);
    let width_of = |it: &BinRow| it.range.to - it.range.from;
    let narrowest = rows.iter().filter(contains_prefix).map(width_of).min()?;
    let candidates = rows.iter().filter(contains_prefix).filter(|it| width_of(it) == narrowest);
    let start = candidates.clone().map(|it| it.range.from).max()?;
    let mut equal_ranges = candidates.filter(|it| it.range.from == start);
    let first = equal_ranges.next()?.details;
    Some(equal_ranges.fold(first, |details, repeated| match repeated.details.brand {
        Some(brand) => details.with_network(brand, repeated.details.funding),
        None => details,
    }))
}

proptest! {
    #[test]
    fn bin_table_lookup_agrees_with_linear_scan(
        rows in any_rows(),
        offset in 0_u32..700,
        is_at_end in any::<bool>(),
    ) {
        let table = BinTable::build(rows.clone());
        let prefix = (if is_at_end { 99_999_500 } else { 41_234_400 } + offset).min(99_999_999);
        let single_prefix = PrefixRange { from: prefix, to: prefix };
        prop_assert_eq!(table.find(single_prefix), reference_lookup(&rows, prefix));

        let from = prefix - prefix % 100;
        let hundred_prefixes = PrefixRange { from, to: from + 99 };
        let details: Option<Vec<_>> =
            (from..=from + 99).map(|it| reference_lookup(&rows, it)).collect();
        let common = details.and_then(|it| it.into_iter().reduce(BinDetails::intersect));
        prop_assert_eq!(table.find(hundred_prefixes), common);
    }

    #[test]
    fn bin_table_round_trips_through_bytes(rows in any_rows()) {
        let table = BinTable::build(rows);
        prop_assert_eq!(BinTable::from_bytes(&table.to_bytes()), Ok(table));
    }

    /// Any bytes give a table or an error, also valid bytes with one changed byte and a valid
    /// checksum.
    #[test]
    fn decoding_arbitrary_bin_files_never_panics(
        rows in any_rows(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        prop_assert!(BinTable::from_bytes(&bytes).is_err());
        let mut bytes = [b"SCRIPBIN\0\0\0\x01".as_slice(), &bytes].concat();
        drop(BinTable::from_bytes(&bytes));
        bytes = BinTable::build(rows).to_bytes();
        let checksum_start = bytes.len() - 4;
        for (index, value) in changes {
            bytes[index.index(checksum_start)] = value;
        }
        let checksum = crc32fast::hash(&bytes[..checksum_start]).to_be_bytes();
        bytes[checksum_start..].copy_from_slice(&checksum);
        if let Ok(table) = BinTable::from_bytes(&bytes) {
            prop_assert_eq!(table.to_bytes(), bytes);
            let details = table.find(PrefixRange { from: 41_234_500, to: 41_234_599 });
            prop_assert!(details.is_none() || !table.details.is_empty());
        }
    }

    /// For any imported data, two cards with the same mask have the same details.
    #[test]
    fn bin_lookup_ignores_masked_digits(
        rows in any_rows(),
        digits in "412345[0-9]{9,13}",
        other_digits in "[0-9]{19}",
    ) {
        let data = BinData::default();
        data.replace_imported(Some(BinTable::build(rows)));
        let (bin_end, last_four_start) = (bin_len(&digits), digits.len() - 4);
        let hidden_digits = &other_digits[bin_end..last_four_start];
        let twin = [&digits[..bin_end], hidden_digits, &digits[last_four_start..]].concat();
        assert_eq!(mask_number(&digits), mask_number(&twin));
        for kind in [TenantKind::Test, TenantKind::Production] {
            prop_assert_eq!(data.find(kind, &digits), data.find(kind, &twin));
        }
    }
}

#[test]
fn sandbox_cards_are_known_to_test_tenants_only() {
    let data = BinData::default();
    let test_lookup = data.find(TenantKind::Test, "4150580996517927");
    assert_eq!(test_lookup.source, BinSource::Sandbox);
    assert_eq!(test_lookup.details.country, Country::parse("FR"));
    assert_eq!(test_lookup.details.additional.iter().count(), 1);
    let production_lookup = data.find(TenantKind::Production, "4150580996517927");
    assert_eq!(production_lookup.source, BinSource::BuiltIn);
    let visa = BinDetails { brand: Some(Brand::Visa), ..BinDetails::default() };
    assert_eq!(production_lookup.details, visa);
}

#[test]
fn imported_bin_data_takes_precedence_and_is_completed_by_built_in() {
    let data = BinData::default();
    let row = |prefix: &str, details| BinRow {
        range: PrefixRange::from_prefix(prefix).unwrap(),
        details,
    };
    let debit = BinDetails { funding: Some(Funding::Debit), ..BinDetails::default() };
    let mir = BinDetails { brand: Some(Brand::Mir), ..BinDetails::default() };
    data.replace_imported(Some(BinTable::build(vec![row("362272", debit), row("41111111", mir)])));
    assert!(data.is_loaded());
    let find = |number| data.find(TenantKind::Production, number);

    let diners = find("36227206271667");
    assert_eq!(
        (diners.details.brand, diners.source),
        (Some(Brand::DinersClub), BinSource::Imported)
    );
    assert_eq!(diners.details.funding, Some(Funding::Debit));
    assert!(diners.details.additional.iter().any(|it| it.brand == Brand::Discover));
    assert_eq!(find("4111111111111111").details.brand, Some(Brand::Mir));
    assert_eq!(find("4111111211111111").details.brand, Some(Brand::Visa));
    data.replace_imported(None);
    assert_eq!(find("4111111111111111").details.brand, Some(Brand::Visa));
}

#[test]
fn bin_table_of_half_a_million_rows_stays_under_thirty_megabytes() {
    const ROWS: usize = 500_000;
    // The worst case: each nested range splits another into two, and all details differ.
    let bytes_max = ROWS * (2 * size_of::<BinRange>() + size_of::<BinDetails>());
    assert!(bytes_max < 30_000_000, "{bytes_max} bytes");

    let countries = ["FR", "US", "GB", "BR", "JP"].map(Country::parse);
    let all_details: Vec<_> = countries
        .iter()
        .flat_map(|country| Brand::ALL.map(|brand| (*country, Some(brand))))
        .map(|(country, brand)| BinDetails { brand, country, ..BinDetails::default() })
        .collect();
    let rows = (40_000_000_u32..).step_by(100).zip(all_details.into_iter().cycle()).take(ROWS);
    let rows =
        rows.map(|(from, details)| BinRow { range: PrefixRange { from, to: from + 99 }, details });
    let table = BinTable::build(rows.collect());
    assert_eq!(table.row_count(), 500_000);
    assert!(table.memory_bytes() < 6_100_000, "{} bytes", table.memory_bytes());
    assert!(table.to_bytes().len() < 6_100_000);
}

#[test]
fn prefix_lookup_finds_sandbox_cards_for_test_tenants_only() {
    let data = BinData::default();
    let find = |kind, digits| data.find_by_prefix(kind, &BinPrefix::parse(digits).unwrap());
    for (digits, country, network) in [
        ("415058", "FR", Brand::CartesBancaires),
        ("41505809", "FR", Brand::CartesBancaires),
        ("457100", "DK", Brand::Dankort),
        ("487104", "BE", Brand::Bancontact),
    ] {
        let details = find(TenantKind::Test, digits).unwrap();
        assert_eq!(details.country, Country::parse(country), "{digits}");
        let networks: Vec<_> = details.additional.iter().map(|it| it.brand).collect();
        assert_eq!((details.brand, networks), (Some(Brand::Visa), vec![network]), "{digits}");
        let production = find(TenantKind::Production, digits).unwrap();
        assert_eq!((production.brand, production.country), (Some(Brand::Visa), None), "{digits}");
    }
    // Cards of this prefix agree in everything.
    assert_eq!(find(TenantKind::Test, "420000").unwrap().country, Country::parse("US"));
    for kind in [TenantKind::Test, TenantKind::Production] {
        assert_eq!(find(kind, "999999"), None);
        assert_eq!(find(kind, "000000"), None);
    }
}

#[test]
fn prefix_lookup_keeps_only_details_of_the_whole_range() {
    let data = BinData::default();
    let row = |prefix: &str, funding| BinRow {
        range: PrefixRange::from_prefix(prefix).unwrap(),
        details: BinDetails {
            brand: Some(Brand::Visa),
            funding: Some(funding),
            ..BinDetails::default()
        },
    };
    let rows = vec![row("411111", Funding::Credit), row("41111122", Funding::Debit)];
    data.replace_imported(Some(BinTable::build(rows)));
    let funding = |digits| {
        let details =
            data.find_by_prefix(TenantKind::Production, &BinPrefix::parse(digits).unwrap());
        details.unwrap().funding
    };
    assert_eq!(funding("41111121"), Some(Funding::Credit));
    assert_eq!(funding("41111122"), Some(Funding::Debit));
    assert_eq!(funding("411111"), None);
}
