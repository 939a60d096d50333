//! Filters that create a random alias of the same shape.
//!
//! An alias never equals the original value: an equal result is drawn again.

use super::{FilterResult, Input, card};
use crate::{
    filter::input::HostFunctions,
    inner_steps::count,
    value::datum::{Datum, to_text},
};

const UNAVAILABLE: &str = "aliases are not available here";
const NOTHING_TO_REPLACE: &str = "the value has no character to replace";
/// For a single digit, one draw in ten equals the digit. So many equal draws in a row do not occur
/// in practice.
const DRAWS_MAX: usize = 64;
/// The cost of drawing and checking a character, in bytes read. An alias is an id of at most a few
/// hundred characters.
const DRAW_WORK: usize = 16;

/// Random choices from blocks of random bytes.
struct RandomSource<'o> {
    host: &'o dyn HostFunctions,
    block: [u8; 32],
    used: usize,
}

impl RandomSource<'_> {
    fn next_byte(&mut self) -> u8 {
        count(1);
        if self.used >= self.block.len() {
            self.host.fill_random(&mut self.block);
            self.used = 0;
        }
        let byte = self.block.get(self.used).copied().unwrap_or_default();
        self.used = self.used.saturating_add(1);
        byte
    }

    /// Chooses a character uniformly: bytes beyond the last whole multiple are skipped. Gives up
    /// after a few blocks if the source returns only such bytes.
    fn choose(&mut self, choices: &[u8]) -> Option<char> {
        let count = u8::try_from(choices.len()).ok().filter(|it| *it > 0)?;
        let fair = u8::MAX.checked_sub(u8::MAX.checked_rem(count)?)?;
        let byte = (0..1024).map(|_| self.next_byte()).find(|it| *it < fair)?;
        choices.get(usize::from(byte.checked_rem(count)?)).copied().map(char::from)
    }
}

const DIGITS: &[u8] = b"0123456789";
const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALL: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The possible replacements of a character. Empty if the character stays.
type Choices = fn(char) -> &'static [u8];

pub(crate) fn same_character_class(c: char) -> &'static [u8] {
    match c {
        _ if c.is_numeric() => DIGITS,
        _ if c.is_uppercase() => UPPER,
        _ if c.is_alphabetic() => LOWER,
        _ => &[],
    }
}

pub(crate) fn any(_: char) -> &'static [u8] {
    ALL
}

/// If `first` and `last` would keep the whole value, nothing is kept.
pub(crate) fn preserve<'a>(input: Input<'_, 'a>, choices: Choices) -> FilterResult<'a> {
    const TAKES: &str = "an alias takes the numbers of characters to keep";
    let first = input.arguments.count(0, TAKES)?.unwrap_or(0);
    let last = input.arguments.count(1, TAKES)?.unwrap_or(0);
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = to_text(&input.value);
    count(text.len());
    let length = text.chars().count();
    let keeps_all = first.saturating_add(last) >= length;
    let (first, end) = if keeps_all { (0, length) } else { (first, length.saturating_sub(last)) };
    let is_kept = |at: usize| at < first || at >= end;
    draw_alias(&input, &text, |random| {
        let draw_character = |(at, c): (usize, char)| match choices(c) {
            _ if is_kept(at) => Some(c),
            [] => Some(c),
            choices => random.choose(choices),
        };
        text.chars().enumerate().map(draw_character).collect()
    })
}

/// Replaces digits with digits. If the number has a valid check digit, the alias has one too, so
/// that it passes card number checks.
pub(crate) fn card<'a>(input: Input<'_, 'a>) -> FilterResult<'a> {
    let (bin, last4) = (input.arguments.flag(0)?, input.arguments.flag(1)?);
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = to_text(&input.value);
    let (first, end) = card::visible_range(&text, bin, last4);
    let has_valid_check_digit = luhn_remainder(&text) == Some(0);
    draw_alias(&input, &text, |random| {
        let mut digit = 0_usize;
        // The position of a digit that can be set to make the check digit valid.
        let mut free_index = None;
        let mut drawn: Vec<char> = Vec::new();
        for c in text.chars() {
            let at = digit;
            digit = digit.saturating_add(usize::from(card::is_card_character(c)));
            let kept = !c.is_ascii_digit() || at < first || at >= end;
            if !kept {
                free_index = Some(drawn.len());
            }
            drawn.push(if kept { c } else { random.choose(DIGITS)? });
        }
        if has_valid_check_digit && let Some(free_index) = free_index {
            let is_valid = |c: &char| {
                count(drawn.len());
                let mut candidate = drawn.clone();
                if let Some(place) = candidate.get_mut(free_index) {
                    *place = *c;
                }
                luhn_remainder(&candidate.iter().collect::<String>()) == Some(0)
            };
            let check_digit = ('0'..='9').find(is_valid)?;
            *drawn.get_mut(free_index)? = check_digit;
        }
        Some(drawn.into_iter().collect())
    })
}

fn draw_alias<'a>(
    input: &Input<'_, '_>,
    text: &str,
    mut draw_once: impl FnMut(&mut RandomSource<'_>) -> Option<String>,
) -> FilterResult<'a> {
    let host = input.host.ok_or(UNAVAILABLE)?;
    let mut random = RandomSource { host, block: [0; 32], used: 32 };
    for _ in 0..DRAWS_MAX {
        input.budget.charge_bytes(text.len().saturating_mul(DRAW_WORK))?;
        count(text.len());
        let drawn = draw_once(&mut random).ok_or(UNAVAILABLE)?;
        if drawn != text {
            return Ok(Datum::from_text(drawn));
        }
    }
    Err(NOTHING_TO_REPLACE)
}

/// The Luhn sum modulo ten. `None` if the text has no digits or contains letters.
fn luhn_remainder(text: &str) -> Option<u32> {
    count(text.len());
    let mut sum = 0_u32;
    let mut has_digits = false;
    for (at, c) in text.chars().rev().filter(|it| card::is_card_character(*it)).enumerate() {
        let digit = c.to_digit(10)?;
        let doubled = if at % 2 == 1 { digit.saturating_mul(2) } else { digit };
        sum = sum.saturating_add(doubled / 10).saturating_add(doubled % 10);
        has_digits = true;
    }
    has_digits.then_some(sum % 10)
}
