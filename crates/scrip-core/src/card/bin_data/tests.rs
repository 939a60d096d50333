//! All of BIN data together: against a plain scan, against any bytes, and against its bounds.

use proptest::prelude::*;

use super::{table::BinRange, *};
use crate::card::{bin_len, mask_number};

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

/// Ranges among few numbers, so that they meet and overlap in every way; the last are at the end of
/// all numbers.
fn any_rows() -> impl Strategy<Value = Vec<BinRow>> {
    let row = (0_u32..400, 0_u32..150, any::<bool>(), any_details());
    let row = row.prop_map(|(from, width, at_the_end, facts)| {
        let base = if at_the_end { 99_999_600 } else { 41_234_500 };
        let from = base + from;
        BinRow { range: PrefixRange { from, to: (from + width).min(99_999_999) }, details: facts }
    });
    prop::collection::vec(row, 0..12)
}

/// What the documentation says, word by word.
fn reference_lookup(rows: &[BinRow], prefix: u32) -> Option<BinDetails> {
    let holds = |it: &&BinRow| (it.range.from..=it.range.to).contains(&prefix);
    let width = |it: &BinRow| it.range.to - it.range.from;
    let narrowest = rows.iter().filter(holds).map(width).min()?;
    let rivals = rows.iter().filter(holds).filter(|it| width(it) == narrowest);
    let start = rivals.clone().map(|it| it.range.from).max()?;
    let mut same = rivals.filter(|it| it.range.from == start);
    let first = same.next()?.details;
    Some(same.fold(first, |facts, again| match again.details.brand {
        Some(brand) => facts.with_network(brand, again.details.funding),
        None => facts,
    }))
}

proptest! {
    #[test]
    fn bin_table_lookup_agrees_with_linear_scan(rows in any_rows(), near in 0_u32..700, end in any::<bool>()) {
        let table = BinTable::build(rows.clone());
        let prefix = (if end { 99_999_500 } else { 41_234_400 } + near).min(99_999_999);
        let one = PrefixRange { from: prefix, to: prefix };
        prop_assert_eq!(table.find(one), reference_lookup(&rows, prefix));

        let from = prefix - prefix % 100;
        let hundred = PrefixRange { from, to: from + 99 };
        let each: Option<Vec<_>> = (from..=from + 99).map(|it| reference_lookup(&rows, it)).collect();
        let common = each.and_then(|it| it.into_iter().reduce(BinDetails::intersect));
        prop_assert_eq!(table.find(hundred), common);
    }

    #[test]
    fn bin_table_round_trips_through_bytes(rows in any_rows()) {
        let table = BinTable::build(rows);
        prop_assert_eq!(BinTable::from_bytes(&table.to_bytes()), Ok(table));
    }

    /// Any bytes are a table or an error; so are ours with a byte of theirs, and a good checksum.
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
        let end = bytes.len() - 4;
        for (at, value) in changes {
            bytes[at.index(end)] = value;
        }
        let checksum = crc32fast::hash(&bytes[..end]).to_be_bytes();
        bytes[end..].copy_from_slice(&checksum);
        if let Ok(table) = BinTable::from_bytes(&bytes) {
            prop_assert_eq!(table.to_bytes(), bytes);
            let found = table.find(PrefixRange { from: 41_234_500, to: 41_234_599 });
            prop_assert!(found.is_none() || !table.details.is_empty());
        }
    }

    /// Whatever was imported, two cards that look the same to a masked reader are told the same of.
    #[test]
    fn bin_lookup_ignores_masked_digits(
        rows in any_rows(),
        digits in "412345[0-9]{9,13}",
        other in "[0-9]{19}",
    ) {
        let data = BinData::default();
        data.replace_imported(Some(BinTable::build(rows)));
        let (shown, end) = (bin_len(&digits), digits.len() - 4);
        let twin = [&digits[..shown], &other[shown..end], &digits[end..]].concat();
        assert_eq!(mask_number(&digits), mask_number(&twin));
        for kind in [TenantKind::Test, TenantKind::Production] {
            prop_assert_eq!(data.find(kind, &digits), data.find(kind, &twin));
        }
    }
}

#[test]
fn sandbox_cards_are_known_to_test_tenants_only() {
    let data = BinData::default();
    let test = data.find(TenantKind::Test, "4150580996517927");
    assert_eq!(test.source, BinSource::Sandbox);
    assert_eq!(test.details.country, Country::parse("FR"));
    assert_eq!(test.details.additional.iter().count(), 1);
    let real = data.find(TenantKind::Production, "4150580996517927");
    assert_eq!(real.source, BinSource::BuiltIn);
    let visa = BinDetails { brand: Some(Brand::Visa), ..BinDetails::default() };
    assert_eq!(real.details, visa);
}

#[test]
fn imported_bin_data_takes_precedence_and_is_completed_by_built_in() {
    let data = BinData::default();
    let row = |prefix: &str, facts| BinRow {
        range: PrefixRange::from_prefix(prefix).unwrap(),
        details: facts,
    };
    let debit = BinDetails { funding: Some(Funding::Debit), ..BinDetails::default() };
    let mir = BinDetails { brand: Some(Brand::Mir), ..BinDetails::default() };
    data.replace_imported(Some(BinTable::build(vec![row("362272", debit), row("41111111", mir)])));
    assert!(data.is_loaded());
    let found = |number| data.find(TenantKind::Production, number);

    let diners = found("36227206271667");
    assert_eq!(
        (diners.details.brand, diners.source),
        (Some(Brand::DinersClub), BinSource::Imported)
    );
    assert_eq!(diners.details.funding, Some(Funding::Debit));
    assert!(diners.details.additional.iter().any(|it| it.brand == Brand::Discover));
    assert_eq!(found("4111111111111111").details.brand, Some(Brand::Mir));
    assert_eq!(found("4111111211111111").details.brand, Some(Brand::Visa));
    data.replace_imported(None);
    assert_eq!(found("4111111111111111").details.brand, Some(Brand::Visa));
}

#[test]
fn bin_table_of_half_a_million_rows_stays_under_thirty_megabytes() {
    const ROWS: usize = 500_000;
    // Each range inside another makes two stretches of one, and nobody says the same twice.
    let worst = ROWS * (2 * size_of::<BinRange>() + size_of::<BinDetails>());
    assert!(worst < 30_000_000, "{worst}");

    let countries = ["FR", "US", "GB", "BR", "JP"].map(Country::parse);
    let kinds: Vec<_> = countries
        .iter()
        .flat_map(|country| Brand::ALL.map(|brand| (*country, Some(brand))))
        .map(|(country, brand)| BinDetails { brand, country, ..BinDetails::default() })
        .collect();
    let rows = (40_000_000_u32..).step_by(100).zip(kinds.into_iter().cycle()).take(ROWS);
    let rows = rows
        .map(|(from, facts)| BinRow { range: PrefixRange { from, to: from + 99 }, details: facts });
    let table = BinTable::build(rows.collect());
    assert_eq!(table.row_count(), 500_000);
    assert!(table.memory_bytes() < 6_100_000, "{}", table.memory_bytes());
    assert!(table.to_bytes().len() < 6_100_000);
}
