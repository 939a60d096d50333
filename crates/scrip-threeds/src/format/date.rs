//! Dates and times in digits. They must exist in the calendar.

use crate::{
    fault::ErrorCode,
    format::{CheckedText, DigitsRule, FormatRule, ensure_format},
};

/// YYYYMMDD.
pub type Day = CheckedText<DateRule<8>>;
/// `YYYYMMDDhhmm`.
pub type DateTimeMinutes = CheckedText<DateRule<12>>;
/// `YYYYMMDDhhmmss`.
pub type DateTimeSeconds = CheckedText<DateRule<14>>;
/// YYMM, the expiry of a card.
pub type CardExpiry = CheckedText<CardExpiryRule>;

/// The number in two digits at `start`, if it is within the bounds.
fn check_two_digits(text: &str, start: usize, low: u8, high: u8) -> Result<u8, ErrorCode> {
    let number = text.get(start..start.saturating_add(2)).and_then(|it| it.parse().ok());
    number.filter(|it| (low..=high).contains(it)).ok_or(ErrorCode::FormatInvalid)
}

fn check_day(text: &str) -> Result<(), ErrorCode> {
    let year: u16 = text.get(..4).and_then(|it| it.parse().ok()).unwrap_or_default();
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match check_two_digits(text, 4, 1, 12)? {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    check_two_digits(text, 6, 1, days)?;
    ensure_format(year > 0)
}

/// A date, and a time as precise as the number of digits.
#[derive(Debug)]
pub struct DateRule<const DIGITS: usize>;

impl<const DIGITS: usize> FormatRule for DateRule<DIGITS> {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<DIGITS, DIGITS>::check(text)?;
        check_day(text)?;
        for (position, maximum) in [(8, 23), (10, 59), (12, 59)] {
            if position < DIGITS {
                check_two_digits(text, position, 0, maximum)?;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct CardExpiryRule;

impl FormatRule for CardExpiryRule {
    fn check(text: &str) -> Result<(), ErrorCode> {
        DigitsRule::<4, 4>::check(text)?;
        check_two_digits(text, 2, 1, 12).map(|_| ())
    }
}
