//! Spellings of brands and kinds of funding in lists.

use scrip_core::card::bin_data::{Brand, Funding};

/// Parses the name of a brand, or of a product of a brand.
pub(super) fn parse_brand(text: &str) -> Option<Brand> {
    let normalized = normalize(text);
    let exact_match = BRANDS.iter().find(|(name, _)| *name == normalized).map(|(_, brand)| *brand);
    // Products start with the name of the scheme: Visa Electron, Mastercard World.
    let find_product = || {
        let schemes = [("visa", Brand::Visa), ("mastercard", Brand::Mastercard)];
        schemes.into_iter().find(|(name, _)| normalized.starts_with(name)).map(|(_, brand)| brand)
    };
    exact_match.or_else(find_product)
}

/// Parses the exact name of a brand, including brands that exist only in addition to another one.
pub(super) fn parse_additional_brand(text: &str) -> Option<Brand> {
    Brand::parse(&text.to_ascii_lowercase())
}

pub(super) fn parse_funding(text: &str) -> Option<Funding> {
    match normalize(text).as_str() {
        "credit" | "creditcard" | "charge" | "chargecard" => Some(Funding::Credit),
        "debit" | "debitcard" => Some(Funding::Debit),
        "prepaid" | "prepaidcard" | "prepaiddebit" | "debitprepaid" => Some(Funding::Prepaid),
        _ => None,
    }
}

/// Returns whether the value of a yes/no column means yes.
pub(super) fn is_yes(text: &str) -> bool {
    matches!(normalize(text).as_str(), "yes" | "y" | "true" | "t" | "1")
}

/// Keeps letters and digits in lower case: `Master Card`, `MASTERCARD` and `master-card` are equal.
pub(super) fn normalize(text: &str) -> String {
    let characters = text.chars().filter(char::is_ascii_alphanumeric);
    characters.map(|it| it.to_ascii_lowercase()).collect()
}

const BRANDS: &[(&str, Brand)] = &[
    ("americanexpress", Brand::AmericanExpress),
    ("amex", Brand::AmericanExpress),
    ("dinersclub", Brand::DinersClub),
    ("dinersclubinternational", Brand::DinersClub),
    ("diners", Brand::DinersClub),
    ("discover", Brand::Discover),
    ("discovercard", Brand::Discover),
    ("discovernetwork", Brand::Discover),
    ("ebt", Brand::Ebt),
    ("elo", Brand::Elo),
    ("hipercard", Brand::Hipercard),
    ("hiper", Brand::Hipercard),
    ("jcb", Brand::Jcb),
    ("mc", Brand::Mastercard),
    ("maestro", Brand::Mastercard),
    ("cirrus", Brand::Mastercard),
    ("mir", Brand::Mir),
    ("nspkmir", Brand::Mir),
    ("privatelabel", Brand::PrivateLabel),
    ("privatelabelcard", Brand::PrivateLabel),
    ("proprietary", Brand::Proprietary),
    ("unionpay", Brand::Unionpay),
    ("chinaunionpay", Brand::Unionpay),
    ("cup", Brand::Unionpay),
    ("upi", Brand::Unionpay),
    ("vpay", Brand::Visa),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brand_spellings_of_public_lists_are_recognized() {
        for (text, expected) in [
            ("VISA", Some(Brand::Visa)),
            ("Visa Electron", Some(Brand::Visa)),
            ("MASTER CARD", Some(Brand::Mastercard)),
            ("MAESTRO", Some(Brand::Mastercard)),
            ("CHINA UNION PAY", Some(Brand::Unionpay)),
            ("DINERS CLUB INTERNATIONAL", Some(Brand::DinersClub)),
            ("PRIVATE LABEL", Some(Brand::PrivateLabel)),
            ("RUPAY", None),
            ("", None),
        ] {
            assert_eq!(parse_brand(text), expected, "{text}");
        }
        for it in Brand::ALL.iter().filter(|it| it.is_primary()) {
            assert_eq!(parse_brand(it.as_str()), Some(*it));
        }
        assert_eq!(parse_additional_brand("Rupay"), Some(Brand::Rupay));
    }

    #[test]
    fn funding_spellings_of_public_lists_are_recognized() {
        for (text, expected) in [
            ("CREDIT", Some(Funding::Credit)),
            ("CHARGE CARD", Some(Funding::Credit)),
            ("debit", Some(Funding::Debit)),
            ("Prepaid", Some(Funding::Prepaid)),
            ("", None),
            ("GIFT", None),
        ] {
            assert_eq!(parse_funding(text), expected, "{text}");
        }
        assert!(is_yes("Yes") && is_yes("TRUE") && !is_yes("No") && !is_yes(""));
    }
}
