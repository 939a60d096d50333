//! Card numbers: checksum, BIN, masks and look-alike numbers.

/// Checks the length and the checksum of a card number.
/// Errors: the number of digits is wrong, or the Luhn checksum is not valid.
pub(crate) fn check_number(text: &str, digits_min: usize) -> Result<(), &'static str> {
    let has_only_digits = text.bytes().all(|it| it.is_ascii_digit());
    if !has_only_digits || !(digits_min..=19).contains(&text.len()) {
        return Err(if digits_min == 12 {
            "must be 12 to 19 digits"
        } else {
            "must be 13 to 19 digits"
        });
    }
    if luhn_sum(text).is_multiple_of(10) {
        Ok(())
    } else {
        Err("is not a card number: its checksum fails")
    }
}

fn luhn_sum(digits: &str) -> u32 {
    let weigh =
        |(index, digit): (usize, u8)| match (u32::from(digit - b'0'), index.is_multiple_of(2)) {
            (digit, true) => digit,
            (digit @ 0..5, false) => digit * 2,
            (digit, false) => digit * 2 - 9,
        };
    digits.bytes().rev().enumerate().map(weigh).sum()
}

/// The length of the BIN: six digits, or eight for numbers of sixteen digits or more.
pub(crate) fn bin_len(number: &str) -> usize {
    if number.len() >= 16 { 8 } else { 6 }
}

/// The masked number: BIN and last four. It is the input of expressions with results that other
/// callers see, so they cannot show more.
pub(crate) fn mask_number(number: &str) -> String {
    let (bin_end, last_four_start) = (bin_len(number), number.len().saturating_sub(4));
    let mask = |(index, character)| {
        if index < bin_end || index >= last_four_start { character } else { 'X' }
    };
    number.chars().enumerate().map(mask).collect()
}

/// Makes another number with the same BIN, last four and length, and with a valid checksum. The
/// digits in between are `fill`, except one digit that corrects the checksum. If an expression
/// gives the same result for two of these, the result does not depend on the hidden digits.
pub(crate) fn make_lookalike(number: &str, fill: u8) -> String {
    let (bin_end, last_four_start) = (bin_len(number), number.len().saturating_sub(4));
    let replace_hidden = |(index, character)| {
        if index < bin_end || index >= last_four_start { character } else { char::from(fill) }
    };
    let filled: String = number.chars().enumerate().map(replace_hidden).collect();
    // One digit is enough to correct the checksum.
    let with_digit = |digit: u8| {
        let replace_first = |(index, character)| {
            if index == bin_end && index < last_four_start { char::from(digit) } else { character }
        };
        filled.chars().enumerate().map(replace_first).collect::<String>()
    };
    let corrected = (b'0'..=b'9').map(with_digit).find(|it| luhn_sum(it).is_multiple_of(10));
    corrected.unwrap_or(filled)
}

/// Whether a text contains a number with the same length, BIN and last four, whatever characters
/// are between the digits.
pub(crate) fn contains_lookalike(text: &str, number: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let last_four_start = number.len().saturating_sub(4);
    let is_lookalike = |it: &[u8]| {
        let candidate = std::str::from_utf8(it).unwrap_or_default();
        candidate.get(..bin_len(number)) == number.get(..bin_len(number))
            && candidate.get(last_four_start..) == number.get(last_four_start..)
    };
    !number.is_empty() && digits.as_bytes().windows(number.len()).any(is_lookalike)
}

/// Whether a text contains a possible card number. Any characters except letters may be between the
/// digits.
pub fn contains_card_number(text: &str) -> bool {
    let unseparated: String = text.chars().filter(|it| it.is_alphanumeric()).collect();
    let mut runs = unseparated.split(|it: char| !it.is_ascii_digit());
    let is_card_number =
        |it: &[u8]| std::str::from_utf8(it).is_ok_and(|it| check_number(it, 13).is_ok());
    runs.any(|run| (13..=19).any(|length| run.as_bytes().windows(length).any(is_card_number)))
}

/// Whether both numbers have the same mask.
pub(crate) fn has_same_mask(number: &str, other: &str) -> bool {
    let (bin_end, last_four_start) = (bin_len(number), number.len().saturating_sub(4));
    number.len() == other.len()
        && number.get(..bin_end) == other.get(..bin_end)
        && number.get(last_four_start..) == other.get(last_four_start..)
}
