//! Dates as rows of digits, which name a day and time that exist.

use crate::{
    fault::ErrorCode,
    format::{Checked, DigitsRule, Rule, holds},
};

/// YYYYMMDD.
pub type Day = Checked<DayRule>;
/// `YYYYMMDDhhmm`.
pub type Minute = Checked<MinuteRule>;
/// `YYYYMMDDhhmmss`.
pub type Second = Checked<SecondRule>;
/// YYMM, of a card.
pub type CardExpiry = Checked<CardExpiryRule>;

/// The number of two digits at a place, if it lies between bounds.
fn pair(text: &str, at: usize, low: u8, high: u8) -> Result<u8, ErrorCode> {
    let number = text.get(at..at.saturating_add(2)).and_then(|it| it.parse().ok());
    number.filter(|it| (low..=high).contains(it)).ok_or(ErrorCode::FormatInvalid)
}

fn day(text: &str) -> Result<(), ErrorCode> {
    let year: u16 = text.get(..4).and_then(|it| it.parse().ok()).unwrap_or_default();
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match pair(text, 4, 1, 12)? {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    pair(text, 6, 1, days)?;
    holds(year > 0)
}

#[derive(Debug)]
pub struct DayRule;

impl Rule for DayRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<8, 8>::check(text)?;
        day(text)
    }

    #[cfg(test)]
    fn samples() -> Vec<String> {
        ["20261115", "20240229", "20000229", "20261231", "99991130"].map(str::to_owned).into()
    }

    #[cfg(test)]
    fn refused() -> Vec<String> {
        ["2026111", "202611150", "20260229", "19000229", "20260431", "20261301", "20260100"]
            .map(str::to_owned)
            .into()
    }
}

#[derive(Debug)]
pub struct MinuteRule;

impl Rule for MinuteRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<12, 12>::check(text)?;
        day(text)?;
        pair(text, 8, 0, 23)?;
        pair(text, 10, 0, 59).map(|_| ())
    }

    #[cfg(test)]
    fn samples() -> Vec<String> {
        ["202611152359", "202611150000"].map(str::to_owned).into()
    }

    #[cfg(test)]
    fn refused() -> Vec<String> {
        ["20261115235", "2026111523590", "202611152400", "202611152360", "202602302359"]
            .map(str::to_owned)
            .into()
    }
}

#[derive(Debug)]
pub struct SecondRule;

impl Rule for SecondRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<14, 14>::check(text)?;
        day(text)?;
        pair(text, 8, 0, 23)?;
        pair(text, 10, 0, 59)?;
        pair(text, 12, 0, 59).map(|_| ())
    }

    #[cfg(test)]
    fn samples() -> Vec<String> {
        ["20261115235959", "20261115000000"].map(str::to_owned).into()
    }

    #[cfg(test)]
    fn refused() -> Vec<String> {
        ["2026111523595", "202611152359590", "20261115235960", "20261115246000"]
            .map(str::to_owned)
            .into()
    }
}

#[derive(Debug)]
pub struct CardExpiryRule;

impl Rule for CardExpiryRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<4, 4>::check(text)?;
        pair(text, 2, 1, 12).map(|_| ())
    }

    #[cfg(test)]
    fn samples() -> Vec<String> {
        ["3012", "2601"].map(str::to_owned).into()
    }

    #[cfg(test)]
    fn refused() -> Vec<String> {
        ["3013", "3000", "301", "30120"].map(str::to_owned).into()
    }
}
