//! Filters that make a random stand-in of the same shape.
//!
//! An alias never is what it stands for: that one is drawn again.

use super::{FilterResult, Input, card};
use crate::{
    host_functions::HostFunctions,
    inner_steps::count,
    value::datum::{Datum, to_text},
};

const UNAVAILABLE: &str = "an alias cannot be made here";
const NOTHING_TO_REPLACE: &str = "there is nothing to make an alias of";
/// Of a single digit one draw in ten is the digit itself: that so many are is out of the question.
const DRAWS_MAX: usize = 64;
/// What drawing and checking a character costs, in bytes that are read. An alias is an id of a few
/// hundred characters.
const DRAW_WORK: usize = 16;

/// Random choices, a block of bytes at a time.
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

    /// One of the characters, each as likely: bytes past the last whole multiple are passed over.
    /// A source that gives nothing else ends after a few blocks.
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

/// What may stand in the place of a character; nothing when it stays.
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

/// Where `first` and `last` would keep the whole, nothing is kept.
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
    draw_alias(&input, &text, |chance| {
        let draw_character = |(at, c): (usize, char)| match choices(c) {
            _ if is_kept(at) => Some(c),
            [] => Some(c),
            choices => chance.choose(choices),
        };
        text.chars().enumerate().map(draw_character).collect()
    })
}

/// Digits for digits. An alias of a number with a right check digit has one too, so that it passes
/// where card numbers are checked.
pub(crate) fn card<'a>(input: Input<'_, 'a>) -> FilterResult<'a> {
    let (bin, last4) = (input.arguments.flag(0)?, input.arguments.flag(1)?);
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = to_text(&input.value);
    let (first, end) = card::visible_range(&text, bin, last4);
    let has_valid_check_digit = luhn_remainder(&text) == Some(0);
    draw_alias(&input, &text, |chance| {
        let mut digit = 0_usize;
        // Where a digit can be set to make the check right.
        let mut free_index = None;
        let mut drawn: Vec<char> = Vec::new();
        for c in text.chars() {
            let at = digit;
            digit = digit.saturating_add(usize::from(card::is_card_character(c)));
            let kept = !c.is_ascii_digit() || at < first || at >= end;
            if !kept {
                free_index = Some(drawn.len());
            }
            drawn.push(if kept { c } else { chance.choose(DIGITS)? });
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

/// The sum of the check, to ten; none when there are no digits alone.
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
