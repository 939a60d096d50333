//! The card ranges of the schemes: ISO/IEC 7812 prefixes that the schemes and US states have
//! published.
//!
//! The ranges contain the brand and little else. There are no published ranges of `private-label`
//! and `proprietary` cards: only imported data contains such numbers. There are also none of Cartes
//! Bancaires, Bancontact and other national networks that share a card with Visa or Mastercard,
//! except Dankort. Maestro belongs to Mastercard and counts as Mastercard.

use std::sync::LazyLock;

use crate::card::bin_data::{
    BinDetails, BinRow, BinTable,
    Brand::{
        self, AmericanExpress, Dankort, DinersClub, Discover, Ebt, Elo, Hipercard, Jcb, Mastercard,
        Mir, Unionpay, Visa,
    },
    Country, PrefixRange,
};

/// First and last prefix, which may be equal; the brand; and other networks that accept the same
/// card.
type SchemeRange = (&'static str, &'static str, Brand, &'static [Brand]);

pub(super) fn table() -> &'static BinTable {
    static TABLE: LazyLock<BinTable> = LazyLock::new(|| {
        let scheme_rows = SCHEME_RANGES.iter().filter_map(|(first, last, brand, additional)| {
            let range =
                PrefixRange::from_prefix(first)?.through(PrefixRange::from_prefix(last)?)?;
            let details = BinDetails { brand: Some(*brand), ..BinDetails::default() };
            let details =
                additional.iter().fold(details, |details, it| details.with_network(*it, None));
            Some(BinRow { range, details })
        });
        let ebt_rows = EBT_PREFIXES.iter().filter_map(|prefix| {
            let country = Country::parse("US");
            let details = BinDetails { brand: Some(Ebt), country, ..BinDetails::default() };
            Some(BinRow { range: PrefixRange::from_prefix(prefix)?, details })
        });
        BinTable::build(scheme_rows.chain(ebt_rows).collect())
    });
    &TABLE
}

#[rustfmt::skip]
const SCHEME_RANGES: &[SchemeRange] = &[
    ("34", "34", AmericanExpress, &[]),
    ("37", "37", AmericanExpress, &[]),

    // Diners Club International is a brand of Discover, and the network of Discover accepts its
    // cards.
    ("300", "305", DinersClub, &[Discover]),
    ("3095", "3095", DinersClub, &[Discover]),
    ("36", "36", DinersClub, &[Discover]),
    ("38", "39", DinersClub, &[Discover]),

    ("6011", "6011", Discover, &[]),
    ("644", "649", Discover, &[]),
    ("65", "65", Discover, &[]),

    // Prefixes of Visa, on cards of both brands; prefixes of Discover, which accepts these cards
    // abroad.
    ("401178", "401179", Elo, &[Visa]),
    ("431274", "431274", Elo, &[Visa]),
    ("438935", "438935", Elo, &[Visa]),
    ("451416", "451416", Elo, &[Visa]),
    ("457393", "457393", Elo, &[Visa]),
    ("457631", "457632", Elo, &[Visa]),
    ("504175", "504175", Elo, &[]),
    ("506699", "506778", Elo, &[]),
    ("509", "509", Elo, &[]),
    ("627780", "627780", Elo, &[]),
    ("636297", "636297", Elo, &[]),
    ("636368", "636368", Elo, &[]),
    ("650031", "650033", Elo, &[Discover]),
    ("650035", "650051", Elo, &[Discover]),
    ("650405", "650439", Elo, &[Discover]),
    ("650485", "650538", Elo, &[Discover]),
    ("650541", "650598", Elo, &[Discover]),
    ("650700", "650718", Elo, &[Discover]),
    ("650720", "650727", Elo, &[Discover]),
    ("650901", "650978", Elo, &[Discover]),
    ("651652", "651679", Elo, &[Discover]),
    ("655000", "655019", Elo, &[Discover]),
    ("655021", "655058", Elo, &[Discover]),

    // Hiper, of the same issuer.
    ("606282", "606282", Hipercard, &[]),
    ("637095", "637095", Hipercard, &[]),
    ("637568", "637568", Hipercard, &[]),
    ("637599", "637599", Hipercard, &[]),
    ("637609", "637609", Hipercard, &[]),
    ("637612", "637612", Hipercard, &[]),

    ("1800", "1800", Jcb, &[]),
    ("2131", "2131", Jcb, &[]),
    ("3528", "3589", Jcb, &[]),

    ("51", "55", Mastercard, &[]),
    ("2221", "2720", Mastercard, &[]),
    // Maestro.
    ("5018", "5018", Mastercard, &[]),
    ("5020", "5020", Mastercard, &[]),
    ("5038", "5038", Mastercard, &[]),
    ("5893", "5893", Mastercard, &[]),
    ("6304", "6304", Mastercard, &[]),
    ("6759", "6759", Mastercard, &[]),
    ("6761", "6763", Mastercard, &[]),

    ("2200", "2204", Mir, &[]),

    ("62", "62", Unionpay, &[]),
    ("8100", "8171", Unionpay, &[]),
    // Ranges that Discover accepts too.
    ("622126", "622925", Unionpay, &[Discover]),
    ("624", "626", Unionpay, &[Discover]),
    ("6282", "6288", Unionpay, &[Discover]),

    ("4", "4", Visa, &[]),
    ("4571", "4571", Visa, &[Dankort]),
];

/// Electronic benefit transfer: one prefix for each state, district or territory, as published for
/// the shops that accept its cards; the Dakotas share one.
#[rustfmt::skip]
const EBT_PREFIXES: &[&str] = &[
    "504476", "505349", "507680", "507681", "507682", "507683", "507692", "507693", "507695",
    "507698", "507700", "507701", "507702", "507703", "507704", "507705", "507706", "507707",
    "507708", "507709", "507710", "507711", "507713", "507714", "507715", "507716", "507718",
    "507719", "507720", "507721", "508132", "508139", "508147", "508148", "508161", "578036",
    "586616", "600486", "600528", "600760", "600875", "600890", "601036", "601413", "601453",
    "610093", "610098", "610423", "610434", "610470", "622044", "627485",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: &str, brand: Option<Brand>, additional: &[Brand]) {
        let details = table().find(PrefixRange::from_number(number).unwrap()).unwrap_or_default();
        assert_eq!(details.brand, brand, "{number}");
        let additional_brands: Vec<_> = details.additional.iter().map(|it| it.brand).collect();
        assert_eq!(additional_brands, additional, "{number}");
    }

    /// Test numbers that schemes and processors publish.
    #[test]
    fn published_test_numbers_have_their_brand() {
        for (brand, numbers) in [
            (Visa, ["4111111111111111", "4012888888881881", "4222222222222"].as_slice()),
            (Mastercard, &["5555555555554444", "2223003122003222", "5105105105105100"]),
            (Mastercard, &["2221000000000009", "2720990000000007", "6759649826438453"]),
            (AmericanExpress, &["378282246310005", "371449635398431", "341111111111111"]),
            (Discover, &["6011111111111117", "6011000990139424", "6445644564456445"]),
            (Jcb, &["3530111333300000", "3566002020360505", "3569990010095841"]),
            (Mir, &["2200000000000004", "2204000000000007"]),
            (Hipercard, &["6062828888666688", "6062826786276634", "6370950000000005"]),
            (Elo, &["5066991111111118", "6362970000457013", "5090640000000000"]),
            (Unionpay, &["6200000000000005", "8171999927660000"]),
            (Ebt, &["5076801234567890", "6100981234567890123", "6220441234567890"]),
        ] {
            for number in numbers {
                check(number, Some(brand), &[]);
            }
        }
    }

    #[test]
    fn cobranded_numbers_have_both_networks() {
        check("36227206271667", Some(DinersClub), &[Discover]);
        check("30569309025904", Some(DinersClub), &[Discover]);
        check("38520000023237", Some(DinersClub), &[Discover]);
        check("6250941006528599", Some(Unionpay), &[Discover]);
        check("6221260000000000", Some(Unionpay), &[Discover]);
        check("4011780000000000", Some(Elo), &[Visa]);
        check("6504050000000003", Some(Elo), &[Discover]);
        check("4571000000000001", Some(Visa), &[Dankort]);
    }

    #[test]
    fn built_in_range_edges_have_the_expected_brand() {
        for (number, brand) in [
            ("2200000000000000", Some(Mir)),
            ("2205000000000000", None),
            ("2220999900000000", None),
            ("2221000000000000", Some(Mastercard)),
            ("2720999999999999", Some(Mastercard)),
            ("2721000000000000", None),
            ("5000000000000000", None),
            ("5600000000000000", None),
            ("3527999900000000", None),
            ("3590000000000000", None),
            ("6500000000000000", Some(Discover)),
            ("9999999999999999", None),
            ("0000000000000000", None),
        ] {
            check(number, brand, &[]);
        }
    }

    #[test]
    fn built_in_ranges_parse_and_are_unique() {
        let ranges: Vec<_> = SCHEME_RANGES
            .iter()
            .map(|(first, last, ..)| {
                let (first, last) =
                    (PrefixRange::from_prefix(first), PrefixRange::from_prefix(last));
                first.unwrap().through(last.unwrap()).unwrap()
            })
            .chain(EBT_PREFIXES.iter().map(|it| PrefixRange::from_prefix(it).unwrap()))
            .collect();
        for (index, range) in ranges.iter().enumerate() {
            assert!(!ranges[..index].contains(range), "duplicate {range:?}");
        }
        assert_eq!(usize::try_from(table().row_count()).unwrap(), ranges.len());
    }
}
