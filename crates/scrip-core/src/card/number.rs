//! Card numbers as texts: check digit, issuer digits, and what may be shown of them.

/// # Errors
/// Not that many digits, or the Luhn checksum does not hold.
pub fn check_number(text: &str, digits_min: usize) -> Result<(), &'static str> {
    let digits = text.bytes().all(|it| it.is_ascii_digit());
    if !digits || !(digits_min..=19).contains(&text.len()) {
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
    let weigh = |(at, digit): (usize, u8)| match (u32::from(digit - b'0'), at.is_multiple_of(2)) {
        (digit, true) => digit,
        (digit @ 0..5, false) => digit * 2,
        (digit, false) => digit * 2 - 9,
    };
    digits.bytes().rev().enumerate().map(weigh).sum()
}

/// Six digits, or eight for numbers of sixteen digits or more.
pub(crate) fn bin_len(number: &str) -> usize {
    if number.len() >= 16 { 8 } else { 6 }
}

/// A card number as an expression that decides what others see may know it: BIN and last four.
/// Whatever such an expression does, there is nothing more to show.
pub(crate) fn mask_number(number: &str) -> String {
    let (shown, end) = (bin_len(number), number.len().saturating_sub(4));
    let cover = |(at, c)| if at < shown || at >= end { c } else { 'X' };
    number.chars().enumerate().map(cover).collect()
}

/// Another number with the same BIN, last four, length and checksum: what it has between them is made
/// of `fill`. What an expression gives for two of these it gives for every card that looks like them.
pub(crate) fn make_lookalike(number: &str, fill: u8) -> String {
    let (shown, end) = (bin_len(number), number.len().saturating_sub(4));
    let hide = |(at, c)| if at < shown || at >= end { c } else { char::from(fill) };
    let filled: String = number.chars().enumerate().map(hide).collect();
    // Any one digit can put the checksum right.
    let with = |digit: u8| {
        let own = |(at, c)| if at == shown && at < end { char::from(digit) } else { c };
        filled.chars().enumerate().map(own).collect::<String>()
    };
    let right = (b'0'..=b'9').map(with).find(|it| luhn_sum(it).is_multiple_of(10));
    right.unwrap_or(filled)
}

/// Whether a text holds a number of this one's length, BIN and last four, whatever stands between
/// its digits.
pub(crate) fn contains_lookalike(text: &str, number: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let last = number.len().saturating_sub(4);
    let alike = |it: &[u8]| {
        let seen = std::str::from_utf8(it).unwrap_or_default();
        seen.get(..bin_len(number)) == number.get(..bin_len(number))
            && seen.get(last..) == number.get(last..)
    };
    !number.is_empty() && digits.as_bytes().windows(number.len()).any(alike)
}

/// Whether a text holds what could be a card's number, whatever stands between its digits but
/// letters.
#[must_use]
pub fn contains_card_number(text: &str) -> bool {
    let plain: String = text.chars().filter(|it| it.is_alphanumeric()).collect();
    let mut runs = plain.split(|it: char| !it.is_ascii_digit());
    let is_one = |it: &[u8]| std::str::from_utf8(it).is_ok_and(|it| check_number(it, 13).is_ok());
    runs.any(|run| (13..=19).any(|length| run.as_bytes().windows(length).any(is_one)))
}

/// Whether a masked reader could not tell the two apart.
pub(crate) fn has_same_mask(number: &str, other: &str) -> bool {
    let (shown, end) = (bin_len(number), number.len().saturating_sub(4));
    number.len() == other.len()
        && number.get(..shown) == other.get(..shown)
        && number.get(end..) == other.get(end..)
}
