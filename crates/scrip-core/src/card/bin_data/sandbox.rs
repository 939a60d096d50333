//! The sandbox cards: invented numbers for test tenants only.

use crate::card::{
    bin_data::{
        BinDetails,
        Brand::{self, AmericanExpress, DinersClub, Discover, Jcb, Mastercard, Visa},
        Country, Funding,
    },
    fields::has_same_mask,
};

/// Finds a sandbox card by its masked number, like all BIN data.
pub(super) fn find(number: &str) -> Option<BinDetails> {
    let other_card = OTHER_CARDS.iter().find(|(it, ..)| has_same_mask(number, it));
    if let Some(&(_, brand, funding, country, additional)) = other_card {
        let (funding, country) = (Some(funding), Country::parse(country));
        let details = BinDetails { brand, funding, country, ..BinDetails::default() };
        return Some(
            additional.iter().fold(details, |details, it| details.with_network(*it, funding)),
        );
    }
    let (brand, _) = US_CREDIT_CARDS
        .iter()
        .find(|(_, numbers)| numbers.iter().any(|it| has_same_mask(number, it)))?;
    let (funding, country) = (Some(Funding::Credit), Country::parse("US"));
    Some(BinDetails { brand: Some(*brand), funding, country, ..BinDetails::default() })
}

/// The details that all sandbox cards with this prefix have in common.
pub(super) fn find_by_prefix(prefix: &str) -> Option<BinDetails> {
    let us_numbers = US_CREDIT_CARDS.iter().flat_map(|(_, numbers)| *numbers);
    let numbers = us_numbers.chain(OTHER_CARDS.iter().map(|(number, ..)| number));
    let cards = numbers.filter(|it| it.starts_with(prefix)).filter_map(|it| find(it));
    cards.reduce(BinDetails::intersect)
}

/// Whether this is the number of a sandbox card. Some of them have no valid checksum.
pub(crate) fn is_sandbox_number(number: &str) -> bool {
    let is_us_credit_card = US_CREDIT_CARDS.iter().any(|(_, numbers)| numbers.contains(&number));
    is_us_credit_card || OTHER_CARDS.iter().any(|(it, ..)| *it == number)
}

/// Credit cards of the United States.
const US_CREDIT_CARDS: &[(Brand, &[&str])] = &[
    (
        Visa,
        &[
            "4000020000000000",
            "4005562231212123",
            "4761369980320253",
            "4000000000000341",
            "4005571701111111",
            "4111111111111111",
            "4264281511112228",
            "4055011111111111",
            "4264281500003339",
            "4264281500001119",
            "4242424242424242",
            "4100000000000003",
            "4200000000000002",
            "4200000000000003",
            "4200000000000004",
            "4200000000000005",
            "4200000000000006",
            "4200000000000007",
            "4200000000000008",
            "4200000000000009",
            "4200000000000010",
            "4200000000000011",
            "4200000000000012",
            "4200000000000013",
            "4200000000000014",
            "4200000000000015",
            "4200000000000016",
            "4200000000000017",
        ],
    ),
    (
        Mastercard,
        &[
            "5204247750001471",
            "5200000000001104",
            "5424180011113336",
            "5424180000000171",
            "5405001111111165",
            "5405001111111116",
            "5427660064241339",
            "5424180011110001",
            "5555555555554444",
            "5454545454545454",
        ],
    ),
    (AmericanExpress, &["340000000004001", "370000000000002", "34343434343434"]),
    (
        Discover,
        &[
            "6011601160116011",
            "6011361011110004",
            "6011361000008888",
            "6011361000001115",
            "6011000400000000",
        ],
    ),
    (Jcb, &["3566002020360505", "3566006663297692", "3528000700000000"]),
    (DinersClub, &["36148900647913", "36700102000000"]),
];

/// Number, brand, funding, country of the issuer, and other networks that accept the card.
type OtherCard = (&'static str, Option<Brand>, Funding, &'static str, &'static [Brand]);

/// Cards with special properties: debit, a second network, strong authentication.
const OTHER_CARDS: &[OtherCard] = &[
    ("4150580996517927", Some(Visa), Funding::Credit, "FR", &[Brand::CartesBancaires]),
    ("4571000000000001", Some(Visa), Funding::Debit, "DK", &[Brand::Dankort]),
    ("4871049999999910", Some(Visa), Funding::Debit, "BE", &[Brand::Bancontact]),
    ("4917610000000000", Some(Visa), Funding::Debit, "GB", &[]),
    ("4462030000000000", Some(Visa), Funding::Debit, "GB", &[]),
    ("6759649826438453", Some(Mastercard), Funding::Debit, "GB", &[]),
    ("5019717010103742", None, Funding::Debit, "DK", &[Brand::Dankort]),
];

#[cfg(test)]
mod tests {
    use super::{
        super::{PrefixRange, built_in},
        *,
    };

    #[test]
    fn sandbox_cards_have_the_brand_of_their_prefix() {
        let us_credit_cards = US_CREDIT_CARDS
            .iter()
            .flat_map(|(brand, numbers)| numbers.iter().map(|number| (*number, Some(*brand))));
        let other_cards = OTHER_CARDS.iter().map(|(number, brand, ..)| (*number, *brand));
        for (number, brand) in us_credit_cards.chain(other_cards) {
            let range = PrefixRange::from_number(number).unwrap();
            let built_in_brand = built_in::table().find(range).and_then(|it| it.brand);
            assert_eq!(built_in_brand, brand, "{number}");
            let details = find(number).unwrap();
            assert_eq!(details.brand, brand, "{number}");
            assert!(details.funding.is_some() && details.country.is_some(), "{number}");
            assert!(is_sandbox_number(number));
        }
    }

    #[test]
    fn numbers_outside_the_sandbox_list_are_not_sandbox_cards() {
        assert_eq!(find("4012888888881881"), None);
        assert!(!is_sandbox_number("4012888888881881"));
        // This number has the same mask as a sandbox card, but is not a sandbox card.
        assert!(!is_sandbox_number("4242424200004242"));
        assert_eq!(find("4242424200004242"), find("4242424242424242"));
    }
}
