//! Filters that show a part and cover the rest.

use super::{Filtered, Input};
use crate::{
    inner_steps::count,
    value::datum::{Datum, text_of},
};

pub(crate) fn last4<'a>(Input { value, .. }: Input<'_, 'a>) -> Filtered<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    count(text.len());
    let hidden = text.chars().count().saturating_sub(4);
    Ok(Datum::text(text.chars().skip(hidden).collect::<String>()))
}

/// Every character but the last n becomes `char`; dashes stay, so that a shape stays readable.
pub(crate) fn reveal_last<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    const TAKES: &str = "reveal_last takes the number of characters to keep";
    let keep = arguments.count(0, TAKES)?.ok_or(TAKES)?;
    let cover = arguments.cover(1, "reveal_last covers with one character")?;
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    count(text.len());
    let hidden = text.chars().count().saturating_sub(keep);
    let covered = |(at, c)| {
        count(1);
        if at < hidden && c != '-' { cover } else { c }
    };
    Ok(Datum::text(text.chars().enumerate().map(covered).collect::<String>()))
}

/// What `first` and `last` would show whole is covered whole.
pub(crate) fn reveal<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    const TAKES: &str = "reveal takes the numbers of characters to show";
    let first = arguments.count(0, TAKES)?.unwrap_or(0);
    let last = arguments.count(1, TAKES)?.unwrap_or(0);
    let cover = arguments.cover(2, "reveal covers with one character")?;
    let kept = KeptCharacters::parse(&arguments.text(3))?;
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    count(text.len());
    let length = text.chars().count();
    let (shown, end) = if first.saturating_add(last) >= length {
        (0, length)
    } else {
        (first, length.saturating_sub(last))
    };
    let cover = |(at, c): (usize, char)| {
        count(1);
        if at < shown || at >= end || kept.contains(c) { c } else { cover }
    };
    Ok(Datum::text(text.chars().enumerate().map(cover).collect::<String>()))
}

/// The characters that a `keep` argument names. Each character of the text is looked up, so the
/// lookup must not take as long as the argument is.
pub(crate) struct KeptCharacters {
    /// By code.
    ascii: [bool; 128],
    /// In order.
    other: Vec<char>,
}

const KEPT_MAX: usize = 256;

impl KeptCharacters {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut kept = Self { ascii: [false; 128], other: Vec::new() };
        for (at, c) in text.chars().enumerate() {
            count(1);
            if at >= KEPT_MAX {
                return Err("keep takes at most 256 characters");
            }
            match usize::try_from(u32::from(c)).ok().and_then(|it| kept.ascii.get_mut(it)) {
                Some(place) => *place = true,
                None => kept.other.push(c),
            }
        }
        kept.other.sort_unstable();
        Ok(kept)
    }

    pub(crate) fn contains(&self, c: char) -> bool {
        count(1);
        let ascii = usize::try_from(u32::from(c)).ok().and_then(|it| self.ascii.get(it));
        match ascii {
            Some(kept) => *kept,
            None => self.other.binary_search(&c).is_ok(),
        }
    }
}
