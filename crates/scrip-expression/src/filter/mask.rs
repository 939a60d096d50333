//! Filters that show a part of a value and mask the rest.

use super::{FilterResult, Input};
use crate::{
    inner_steps::count,
    value::datum::{Datum, to_text},
};

pub(crate) fn last4<'a>(Input { value, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    count(text.len());
    let hidden = text.chars().count().saturating_sub(4);
    Ok(Datum::from_text(text.chars().skip(hidden).collect::<String>()))
}

/// Replaces every character except the last n with `char`. Dashes stay, so that the format stays
/// readable.
pub(crate) fn reveal_last<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    const TAKES: &str = "reveal_last takes the number of characters to keep";
    let visible_count = arguments.count(0, TAKES)?.ok_or(TAKES)?;
    let mask_character =
        arguments.mask_character(1, "reveal_last takes a single mask character")?;
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    count(text.len());
    let hidden = text.chars().count().saturating_sub(visible_count);
    let mask_one = |(index, c)| {
        count(1);
        if index < hidden && c != '-' { mask_character } else { c }
    };
    Ok(Datum::from_text(text.chars().enumerate().map(mask_one).collect::<String>()))
}

/// If `first` and `last` would show the whole value, everything is masked.
pub(crate) fn reveal<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    const TAKES: &str = "reveal takes the numbers of characters to show";
    let first = arguments.count(0, TAKES)?.unwrap_or(0);
    let last = arguments.count(1, TAKES)?.unwrap_or(0);
    let mask_character = arguments.mask_character(2, "reveal takes a single mask character")?;
    let kept_characters = KeptCharacters::parse(&arguments.text(3))?;
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    count(text.len());
    let length = text.chars().count();
    let (visible_start, visible_end) = if first.saturating_add(last) >= length {
        (0, length)
    } else {
        (first, length.saturating_sub(last))
    };
    let mask_one = |(index, c): (usize, char)| {
        count(1);
        if index < visible_start || index >= visible_end || kept_characters.contains(c) {
            c
        } else {
            mask_character
        }
    };
    Ok(Datum::from_text(text.chars().enumerate().map(mask_one).collect::<String>()))
}

/// The characters of a `keep` argument. Each character of the text is looked up, so a lookup must
/// not depend on the length of the argument.
pub(crate) struct KeptCharacters {
    /// Indexed by character code.
    ascii: [bool; 128],
    /// Sorted.
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
                Some(is_kept) => *is_kept = true,
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
