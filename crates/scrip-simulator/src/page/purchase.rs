//! The purchase that a cardholder confirms, as text.

use scrip_threeds::{
    code::{AuthenticationCategory, Scheme},
    message::AReq,
};

/// The displayed purchase. Contains only the last digits of the card number.
#[derive(Debug)]
pub(crate) struct Purchase {
    pub(crate) scheme: Scheme,
    pub(crate) merchant: String,
    pub(crate) amount: Option<String>,
    pub(crate) card: String,
    pub(crate) is_payment: bool,
}

impl Purchase {
    pub(crate) fn from_request(scheme: Scheme, request: &AReq) -> Self {
        let merchant = request.merchant_name.as_ref().map(|it| it.expose());
        let number = request.card_number.expose();
        let last = number.get(number.len().saturating_sub(4)..).unwrap_or_default();
        let amount = request.purchase_amount.as_ref().zip(request.purchase_currency.as_ref());
        let exponent = request.purchase_exponent.as_ref().and_then(|it| it.expose().parse().ok());
        Self {
            scheme,
            merchant: merchant.unwrap_or(request.requestor_name.expose()).to_owned(),
            amount: amount.map(|(amount, currency)| {
                format_amount(amount.expose(), exponent.unwrap_or_default(), currency.expose())
            }),
            card: format!("\u{2022}\u{2022}\u{2022}\u{2022} {last}"),
            is_payment: request.category == AuthenticationCategory::Payment,
        }
    }
}

/// Formats minor units for display: `123456`, 2 and `840` give `1,234.56 USD`.
fn format_amount(minor: &str, exponent: usize, currency: &str) -> String {
    let digits =
        format!("{:0>width$}", minor.trim_start_matches('0'), width = exponent.saturating_add(1));
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(exponent));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && whole.len().saturating_sub(index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let entry = CURRENCIES.iter().find(|(code, _)| *code == currency);
    let currency = entry.map_or_else(|| format!("(currency {currency})"), |it| it.1.to_owned());
    format!("{grouped}{point}{fraction} {currency}")
}

/// The most common currencies. Others are displayed as their number.
const CURRENCIES: &[(&str, &str)] = &[
    ("032", "ARS"),
    ("036", "AUD"),
    ("048", "BHD"),
    ("124", "CAD"),
    ("152", "CLP"),
    ("156", "CNY"),
    ("170", "COP"),
    ("203", "CZK"),
    ("208", "DKK"),
    ("344", "HKD"),
    ("348", "HUF"),
    ("352", "ISK"),
    ("356", "INR"),
    ("360", "IDR"),
    ("376", "ILS"),
    ("392", "JPY"),
    ("410", "KRW"),
    ("414", "KWD"),
    ("458", "MYR"),
    ("484", "MXN"),
    ("554", "NZD"),
    ("578", "NOK"),
    ("608", "PHP"),
    ("682", "SAR"),
    ("702", "SGD"),
    ("704", "VND"),
    ("710", "ZAR"),
    ("752", "SEK"),
    ("756", "CHF"),
    ("764", "THB"),
    ("784", "AED"),
    ("826", "GBP"),
    ("840", "USD"),
    ("901", "TWD"),
    ("946", "RON"),
    ("949", "TRY"),
    ("975", "BGN"),
    ("978", "EUR"),
    ("980", "UAH"),
    ("985", "PLN"),
    ("986", "BRL"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_amount_groups_digits_and_names_the_currency() {
        for (minor, exponent, currency, expected) in [
            ("123456", 2, "840", "1,234.56 USD"),
            ("5", 2, "978", "0.05 EUR"),
            ("0", 2, "978", "0.00 EUR"),
            ("000", 0, "392", "0 JPY"),
            ("1000000", 0, "392", "1,000,000 JPY"),
            ("1234567", 3, "048", "1,234.567 BHD"),
            ("999", 0, "111", "999 (currency 111)"),
            ("00012", 1, "826", "1.2 GBP"),
        ] {
            assert_eq!(format_amount(minor, exponent, currency), expected);
        }
    }
}
