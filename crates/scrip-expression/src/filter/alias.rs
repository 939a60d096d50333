//! Filters that make a random stand-in of the same shape.
//!
//! An alias never is what it stands for: that one is drawn again.

use super::{Filtered, Input, card};
use crate::{
    inner_steps::count,
    outside::Outside,
    value::datum::{Datum, text_of},
};

const UNAVAILABLE: &str = "an alias cannot be made here";
const NOTHING: &str = "there is nothing to make an alias of";
/// Of a single digit one draw in ten is the digit itself: that so many are is out of the question.
const TRIES: usize = 64;
/// What drawing and checking a character costs, in bytes that are read. An alias is an id of a few
/// hundred characters.
const DRAW_WORK: usize = 16;

/// Random choices, a block of bytes at a time.
struct Chance<'o> {
    outside: &'o dyn Outside,
    block: [u8; 32],
    used: usize,
}

impl Chance<'_> {
    fn byte(&mut self) -> u8 {
        count(1);
        if self.used >= self.block.len() {
            self.outside.fill_random(&mut self.block);
            self.used = 0;
        }
        let byte = self.block.get(self.used).copied().unwrap_or_default();
        self.used = self.used.saturating_add(1);
        byte
    }

    /// One of the characters, each as likely: bytes past the last whole multiple are passed over.
    /// A source that gives nothing else ends after a few blocks.
    fn one_of(&mut self, choices: &[u8]) -> Option<char> {
        let count = u8::try_from(choices.len()).ok().filter(|it| *it > 0)?;
        let fair = u8::MAX.checked_sub(u8::MAX.checked_rem(count)?)?;
        let byte = (0..1024).map(|_| self.byte()).find(|it| *it < fair)?;
        choices.get(usize::from(byte.checked_rem(count)?)).copied().map(char::from)
    }
}

const DIGITS: &[u8] = b"0123456789";
const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const ALL: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// What may stand in the place of a character; nothing when it stays.
type Choices = fn(char) -> &'static [u8];

pub(crate) fn like(c: char) -> &'static [u8] {
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
pub(crate) fn preserve<'a>(input: Input<'_, 'a>, choices: Choices) -> Filtered<'a> {
    const TAKES: &str = "an alias takes the numbers of characters to keep";
    let first = input.arguments.count(0, TAKES)?.unwrap_or(0);
    let last = input.arguments.count(1, TAKES)?.unwrap_or(0);
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = text_of(&input.value);
    count(text.len());
    let length = text.chars().count();
    let covers = first.saturating_add(last) >= length;
    let (first, end) = if covers { (0, length) } else { (first, length.saturating_sub(last)) };
    let kept = |at: usize| at < first || at >= end;
    draw(&input, &text, |chance| {
        let place = |(at, c): (usize, char)| match choices(c) {
            _ if kept(at) => Some(c),
            [] => Some(c),
            choices => chance.one_of(choices),
        };
        text.chars().enumerate().map(place).collect()
    })
}

/// Digits for digits. An alias of a number with a right check digit has one too, so that it passes
/// where card numbers are checked.
pub(crate) fn card<'a>(input: Input<'_, 'a>) -> Filtered<'a> {
    let (bin, last4) = (input.arguments.flag(0)?, input.arguments.flag(1)?);
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = text_of(&input.value);
    let (first, end) = card::shown(&text, bin, last4);
    let checked = luhn(&text) == Some(0);
    draw(&input, &text, |chance| {
        let mut digit = 0_usize;
        // Where a digit can be set to make the check right.
        let mut free = None;
        let mut drawn: Vec<char> = Vec::new();
        for c in text.chars() {
            let at = digit;
            digit = digit.saturating_add(usize::from(card::counts(c)));
            let kept = !c.is_ascii_digit() || at < first || at >= end;
            if !kept {
                free = Some(drawn.len());
            }
            drawn.push(if kept { c } else { chance.one_of(DIGITS)? });
        }
        if checked && let Some(free) = free {
            let fits = |c: &char| {
                count(drawn.len());
                let mut with = drawn.clone();
                if let Some(place) = with.get_mut(free) {
                    *place = *c;
                }
                luhn(&with.iter().collect::<String>()) == Some(0)
            };
            let right = ('0'..='9').find(fits)?;
            *drawn.get_mut(free)? = right;
        }
        Some(drawn.into_iter().collect())
    })
}

fn draw<'a>(
    input: &Input<'_, '_>,
    text: &str,
    mut one: impl FnMut(&mut Chance<'_>) -> Option<String>,
) -> Filtered<'a> {
    let outside = input.outside.ok_or(UNAVAILABLE)?;
    let mut chance = Chance { outside, block: [0; 32], used: 32 };
    for _ in 0..TRIES {
        input.budget.bytes(text.len().saturating_mul(DRAW_WORK))?;
        count(text.len());
        let drawn = one(&mut chance).ok_or(UNAVAILABLE)?;
        if drawn != text {
            return Ok(Datum::text(drawn));
        }
    }
    Err(NOTHING)
}

/// The sum of the check, to ten; none when there are no digits alone.
fn luhn(text: &str) -> Option<u32> {
    count(text.len());
    let mut sum = 0_u32;
    let mut any = false;
    for (at, c) in text.chars().rev().filter(|it| card::counts(*it)).enumerate() {
        let digit = c.to_digit(10)?;
        let doubled = if at % 2 == 1 { digit.saturating_mul(2) } else { digit };
        sum = sum.saturating_add(doubled / 10).saturating_add(doubled % 10);
        any = true;
    }
    any.then_some(sum % 10)
}
