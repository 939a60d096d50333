//! Filters for cards.

use serde_json::Value;

use super::{FilterResult, Input, mask::KeptCharacters};
use crate::{
    inner_steps::count,
    value::datum::{Datum, to_text},
};

/// The minimum number of digits of a card number.
const DIGITS_MIN: usize = 12;

/// Eight digits for numbers of 16 or more digits, otherwise six.
pub(crate) fn bin_digits(digits: usize) -> usize {
    if digits >= 16 { 8 } else { 6 }
}

/// Digits, and letters that mask them. Separators do not count.
pub(crate) fn is_card_character(c: char) -> bool {
    c.is_alphanumeric()
}

/// With a separator, the digits are in groups of four.
pub(crate) fn bin<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    count(text.len());
    let digits = text.chars().filter(|it| is_card_character(*it)).count();
    if digits < DIGITS_MIN {
        return Err("this is not a card number");
    }
    let separator = arguments.text(0);
    let mut bin = String::new();
    for (at, c) in
        text.chars().filter(|it| is_card_character(*it)).take(bin_digits(digits)).enumerate()
    {
        if at == 4 {
            bin.push_str(&separator);
        }
        bin.push(c);
    }
    Ok(Datum::from_text(bin))
}

/// Shows the BIN and the last four digits if requested, and masks the rest. Masks everything if the
/// two would show the whole number.
pub(crate) fn mask<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let (bin, last4) = (arguments.flag(0)?, arguments.flag(1)?);
    let mask_character = arguments.mask_character(2, "card_mask takes a single mask character")?;
    let kept_characters = KeptCharacters::parse(&arguments.text(3))?;
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    let (first, end) = visible_range(&text, bin, last4);
    let mut digit = 0_usize;
    let mask_one = |c: char| {
        count(1);
        let digit_index = digit;
        digit = digit.saturating_add(usize::from(is_card_character(c)));
        let is_visible = is_card_character(c) && (digit_index < first || digit_index >= end);
        if is_visible || kept_characters.contains(c) { c } else { mask_character }
    };
    let masked: String = text.chars().map(mask_one).collect();
    // `keep` may cover the whole number.
    if masked == *text {
        count(text.len());
        return Ok(Datum::from_text(text.chars().map(|_| mask_character).collect::<String>()));
    }
    Ok(Datum::from_text(masked))
}

/// The number of visible leading digits, and the index at which trailing digits become visible. If
/// the number is too short for a card number, nothing is visible.
pub(crate) fn visible_range(text: &str, bin: bool, last4: bool) -> (usize, usize) {
    count(text.len());
    let digits = text.chars().filter(|it| is_card_character(*it)).count();
    if digits < DIGITS_MIN {
        return (0, digits);
    }
    let first = if bin { bin_digits(digits) } else { 0 };
    let end = if last4 { digits.saturating_sub(4) } else { digits };
    (first, end)
}

/// Takes a card. Returns null if the card lacks a part of the format.
pub(crate) fn exp<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let format = arguments.text(0);
    count(1);
    let parts: &[&str] = match &*format {
        "MM" => &["MM"],
        "MMYY" => &["MM", "YY"],
        "YYYY" => &["YYYY"],
        "MM/YY" => &["MM", "/", "YY"],
        "MM/YYYY" => &["MM", "/", "YYYY"],
        "YYYY-MM" => &["YYYY", "-", "MM"],
        "YYYY/MM" => &["YYYY", "/", "MM"],
        "MM_YYYY" => &["MM", "_", "YYYY"],
        "MM-YYYY" => &["MM", "-", "YYYY"],
        _ => return Err("card_exp does not support this format"),
    };
    if value.is_null() {
        return Ok(value);
    }
    let Value::Object(card) = &*value else { return Err("card_exp takes a card") };
    let mut text = String::new();
    for part in parts {
        let (property, number_max) = match *part {
            "MM" => ("expiration_month", 12),
            "YY" | "YYYY" => ("expiration_year", 9999),
            separator => {
                text.push_str(separator);
                continue;
            }
        };
        let Some(number) = card.get(property).filter(|it| !it.is_null()) else {
            return Ok(Datum::null());
        };
        let number = number.as_u64().or_else(|| number.as_str()?.parse().ok());
        let number = number.filter(|it| (1..=number_max).contains(it));
        let number = number.ok_or("card_exp takes a month and a year")?;
        match *part {
            "MM" => text.push_str(&format!("{number:02}")),
            "YY" => text.push_str(&format!("{:02}", number % 100)),
            _ => text.push_str(&format!("{number:04}")),
        }
    }
    Ok(Datum::from_text(text))
}
