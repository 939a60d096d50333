//! Card numbers, amounts, countries and counts.

use std::fmt;

use serde_json::Value;

use crate::{
    fault::ErrorCode,
    format::{
        CheckedText, Digits, DigitsRule, ElementContext, ElementFormat, FormatRule, ensure_format,
    },
};

/// A card number of 13 to 19 digits. It cannot be cloned, compared or printed.
///
/// The number is wiped when dropped. The checksum is not validated: card ranges decide whether a card is known, and some
/// test cards have a wrong checksum.
pub struct CardNumber(Digits<13, 19>);

impl CardNumber {
    pub fn parse(text: &str) -> Result<Self, ErrorCode> {
        Digits::parse(text).map(Self)
    }

    /// The only access to the number.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl fmt::Debug for CardNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CardNumber")
    }
}

impl ElementFormat for CardNumber {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        Digits::read(value, context).map(Self)
    }

    fn write(&self) -> Value {
        self.0.write()
    }
}

/// ISO 4217, three digits.
pub type Currency = CheckedText<CurrencyRule>;
/// ISO 3166-1, three digits.
pub type Country = CheckedText<CountryRule>;
/// The number of payments: two or more.
pub type Installments = CheckedText<InstallmentsRule>;
/// The time limit of a decoupled authentication: 1 to 10080 minutes in five digits.
pub type DecoupledMinutes = CheckedText<DecoupledMinutesRule>;
/// The timeout of an SDK: five or more minutes in two digits.
pub type SdkTimeout = CheckedText<SdkTimeoutRule>;

#[derive(Debug)]
pub struct CurrencyRule;

impl FormatRule for CurrencyRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<3, 3>::check(text)?;
        // Precious metals, units of account and "no currency" are not valid for purchases.
        let excluded = ("955"..="964").contains(&text) || text == "999" || text == "000";
        if excluded { Err(ErrorCode::IsoCodeInvalid) } else { Ok(()) }
    }
}

#[derive(Debug)]
pub struct CountryRule;

impl FormatRule for CountryRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<3, 3>::check(text)?;
        let excluded = ("901"..="999").contains(&text) || text == "000";
        if excluded { Err(ErrorCode::IsoCodeInvalid) } else { Ok(()) }
    }
}

#[derive(Debug)]
pub struct InstallmentsRule;

impl FormatRule for InstallmentsRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<1, 3>::check(text)?;
        ensure_format(text.parse::<u16>().is_ok_and(|it| it > 1))
    }
}

#[derive(Debug)]
pub struct DecoupledMinutesRule;

impl FormatRule for DecoupledMinutesRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<5, 5>::check(text)?;
        ensure_format(text.parse::<u32>().is_ok_and(|it| (1..=10_080).contains(&it)))
    }
}

#[derive(Debug)]
pub struct SdkTimeoutRule;

impl FormatRule for SdkTimeoutRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<2, 2>::check(text)?;
        ensure_format(text >= "05")
    }
}
