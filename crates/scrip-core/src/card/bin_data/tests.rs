//! All of BIN data together: against a plain scan, against any bytes, and against its bounds.

use proptest::prelude::*;

use super::{table::Stretch, *};
use crate::card::{bin_len, covered};

fn facts() -> impl Strategy<Value = Facts> {
    let brand = prop::option::of(prop::sample::select(Brand::ALL.to_vec()));
    let funding = prop::option::of(prop::sample::select(Funding::ALL.to_vec()));
    let country = prop::option::of(prop::sample::select(vec!["FR", "US", "GB"]));
    let digits = prop::option::of(prop::sample::select(BinDigits::ALL.to_vec()));
    (brand, funding, country, digits).prop_map(|(brand, funding, country, bin_digits)| Facts {
        brand,
        funding,
        country: country.and_then(Country::parse),
        bin_digits,
        additional: Additional::default(),
    })
}

/// Ranges among few numbers, so that they meet and overlap in every way; the last are at the end of
/// all numbers.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (0_u32..400, 0_u32..150, any::<bool>(), facts());
    let row = row.prop_map(|(from, width, at_the_end, facts)| {
        let base = if at_the_end { 99_999_600 } else { 41_234_500 };
        let from = base + from;
        Row { range: Block { from, to: (from + width).min(99_999_999) }, facts }
    });
    prop::collection::vec(row, 0..12)
}

/// What the documentation says, word by word.
fn scan(rows: &[Row], prefix: u32) -> Option<Facts> {
    let holds = |it: &&Row| (it.range.from..=it.range.to).contains(&prefix);
    let width = |it: &Row| it.range.to - it.range.from;
    let narrowest = rows.iter().filter(holds).map(width).min()?;
    let rivals = rows.iter().filter(holds).filter(|it| width(it) == narrowest);
    let start = rivals.clone().map(|it| it.range.from).max()?;
    let mut same = rivals.filter(|it| it.range.from == start);
    let first = same.next()?.facts;
    Some(same.fold(first, |facts, again| match again.facts.brand {
        Some(brand) => facts.with(brand, again.facts.funding),
        None => facts,
    }))
}

proptest! {
    #[test]
    fn finding_agrees_with_a_scan(rows in rows(), near in 0_u32..700, end in any::<bool>()) {
        let table = BinTable::build(rows.clone());
        let prefix = (if end { 99_999_500 } else { 41_234_400 } + near).min(99_999_999);
        let one = Block { from: prefix, to: prefix };
        prop_assert_eq!(table.find(one), scan(&rows, prefix));

        let from = prefix - prefix % 100;
        let hundred = Block { from, to: from + 99 };
        let each: Option<Vec<_>> = (from..=from + 99).map(|it| scan(&rows, it)).collect();
        let common = each.and_then(|it| it.into_iter().reduce(Facts::common));
        prop_assert_eq!(table.find(hundred), common);
    }

    #[test]
    fn a_table_comes_back_from_its_bytes(rows in rows()) {
        let table = BinTable::build(rows);
        prop_assert_eq!(BinTable::from_bytes(&table.to_bytes()), Ok(table));
    }

    /// Any bytes are a table or an error; so are ours with a byte of theirs, and a good checksum.
    #[test]
    fn bytes_never_panic(
        rows in rows(),
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
            let found = table.find(Block { from: 41_234_500, to: 41_234_599 });
            prop_assert!(found.is_none() || !table.facts.is_empty());
        }
    }

    /// Whatever was imported, two cards that look the same to a masked reader are told the same of.
    #[test]
    fn covered_digits_take_no_part(
        rows in rows(),
        digits in "412345[0-9]{9,13}",
        other in "[0-9]{19}",
    ) {
        let data = BinData::default();
        data.replace(Some(BinTable::build(rows)));
        let (shown, end) = (bin_len(&digits), digits.len() - 4);
        let twin = [&digits[..shown], &other[shown..end], &digits[end..]].concat();
        assert_eq!(covered(&digits), covered(&twin));
        for kind in [TenantKind::Test, TenantKind::Production] {
            prop_assert_eq!(data.find(kind, &digits), data.find(kind, &twin));
        }
    }
}

#[test]
fn sandbox_cards_are_for_test_tenants() {
    let data = BinData::default();
    let test = data.find(TenantKind::Test, "4150580996517927");
    assert_eq!(test.origin, Origin::Sandbox);
    assert_eq!(test.facts.country, Country::parse("FR"));
    assert_eq!(test.facts.additional.iter().count(), 1);
    let real = data.find(TenantKind::Production, "4150580996517927");
    assert_eq!(real.origin, Origin::BuiltIn);
    let visa = Facts { brand: Some(Brand::Visa), ..Facts::default() };
    assert_eq!(real.facts, visa);
}

#[test]
fn imported_data_is_believed_and_completed() {
    let data = BinData::default();
    let row = |prefix: &str, facts| Row { range: Block::of_prefix(prefix).unwrap(), facts };
    let debit = Facts { funding: Some(Funding::Debit), ..Facts::default() };
    let mir = Facts { brand: Some(Brand::Mir), ..Facts::default() };
    data.replace(Some(BinTable::build(vec![row("362272", debit), row("41111111", mir)])));
    assert!(data.is_loaded());
    let found = |number| data.find(TenantKind::Production, number);

    let diners = found("36227206271667");
    assert_eq!((diners.facts.brand, diners.origin), (Some(Brand::DinersClub), Origin::Imported));
    assert_eq!(diners.facts.funding, Some(Funding::Debit));
    assert!(diners.facts.additional.iter().any(|it| it.brand == Brand::Discover));
    assert_eq!(found("4111111111111111").facts.brand, Some(Brand::Mir));
    assert_eq!(found("4111111211111111").facts.brand, Some(Brand::Visa));
    data.replace(None);
    assert_eq!(found("4111111111111111").facts.brand, Some(Brand::Visa));
}

#[test]
fn half_a_million_rows_stay_under_thirty_megabytes() {
    const ROWS: usize = 500_000;
    // Each range inside another makes two stretches of one, and nobody says the same twice.
    let worst = ROWS * (2 * size_of::<Stretch>() + size_of::<Facts>());
    assert!(worst < 30_000_000, "{worst}");

    let countries = ["FR", "US", "GB", "BR", "JP"].map(Country::parse);
    let kinds: Vec<_> = countries
        .iter()
        .flat_map(|country| Brand::ALL.map(|brand| (*country, Some(brand))))
        .map(|(country, brand)| Facts { brand, country, ..Facts::default() })
        .collect();
    let rows = (40_000_000_u32..).step_by(100).zip(kinds.into_iter().cycle()).take(ROWS);
    let rows = rows.map(|(from, facts)| Row { range: Block { from, to: from + 99 }, facts });
    let table = BinTable::build(rows.collect());
    assert_eq!(table.rows(), 500_000);
    assert!(table.bytes() < 6_100_000, "{}", table.bytes());
    assert!(table.to_bytes().len() < 6_100_000);
}
