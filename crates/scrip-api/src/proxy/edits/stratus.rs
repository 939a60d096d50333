//! The card number field in the fixed-width messages of Chase Stratus.
//!
//! The field has 19 characters: the card number, then blanks. The layout of the messages is not
//! public, so the field is found by its form: a card number with a valid check digit that blanks
//! fill to 19 characters, or that the end of a line cuts short. A number that only looks like a card
//! number is masked too: that is better than to show a card.

use super::masked_bytes::{MaskedBytes, mark};

pub(super) const FIELD_CHARACTERS: usize = 19;
const DIGITS_MIN: usize = 12;

pub(super) fn find_fields(text: &str) -> MaskedBytes {
    let mut masked = vec![false; text.len()];
    let bytes = text.as_bytes();
    let mut run_start = 0_usize;
    while let Some(offset) =
        bytes.get(run_start..).and_then(|it| it.iter().position(u8::is_ascii_digit))
    {
        run_start = run_start.saturating_add(offset);
        let run = bytes.get(run_start..).unwrap_or_default();
        let digits = run.iter().take_while(|it| it.is_ascii_digit()).count();
        let run_end = run_start.saturating_add(digits);
        mask_run(bytes, run_start, run_end, &mut masked);
        run_start = run_end;
    }
    masked
}

/// Masks the fields of one run of digits. Digits of the field before may precede the number.
fn mask_run(bytes: &[u8], run_start: usize, run_end: usize, masked: &mut [bool]) {
    let after = bytes.get(run_end..).unwrap_or_default();
    let blanks = after.iter().take(FIELD_CHARACTERS).take_while(|it| **it == b' ').count();
    let is_cut_short = matches!(after.get(blanks), None | Some(b'\r' | b'\n'));
    let is_field = |start: usize, end: usize| {
        let digits = end.saturating_sub(start);
        let padding = FIELD_CHARACTERS.saturating_sub(digits);
        let has_padding = padding == 0 || (end == run_end && (blanks >= padding || is_cut_short));
        let number = bytes.get(start..end).unwrap_or_default();
        (DIGITS_MIN..=FIELD_CHARACTERS).contains(&digits) && has_padding && has_check_digit(number)
    };
    let mut mask_field = |start: usize, end: usize| {
        if is_field(start, end) {
            let field_end = start.saturating_add(FIELD_CHARACTERS);
            mark(masked, start, field_end.min(run_end.saturating_add(blanks)));
        }
    };
    for start in run_start..run_end {
        let full_end = start.saturating_add(FIELD_CHARACTERS);
        if full_end < run_end {
            mask_field(start, full_end);
        } else {
            mask_field(start, run_end);
        }
    }
}

fn has_check_digit(number: &[u8]) -> bool {
    let sum = number.iter().rev().enumerate().fold(0_u32, |sum, (index, digit)| {
        let digit = u32::from(digit.saturating_sub(b'0'));
        let doubled = if index % 2 == 1 { digit.saturating_mul(2) } else { digit };
        sum.saturating_add(doubled / 10).saturating_add(doubled % 10)
    });
    sum % 10 == 0 && sum > 0
}
