//! Filters that show a part and cover the rest.

use super::{Context, Filtered, argument};
use crate::datum::{Datum, text_of};

pub(crate) fn last4<'a>(_: &Context<'_>, value: Datum<'a>, _: &[Datum<'a>]) -> Filtered<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    let hidden = text.chars().count().saturating_sub(4);
    Ok(Datum::text(text.chars().skip(hidden).collect::<String>()))
}

/// Every character but the last n becomes `char`; dashes stay, so that a shape stays readable.
pub(crate) fn reveal_last<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    const TAKES: &str = "reveal_last takes the number of characters to keep";
    let keep = argument::count(arguments, 0, TAKES)?.ok_or(TAKES)?;
    let cover = argument::cover(arguments, 1, "reveal_last covers with one character")?;
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    let hidden = text.chars().count().saturating_sub(keep);
    let covered = |(at, c)| if at < hidden && c != '-' { cover } else { c };
    Ok(Datum::text(text.chars().enumerate().map(covered).collect::<String>()))
}

/// What `first` and `last` would show whole is covered whole.
pub(crate) fn reveal<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    const TAKES: &str = "reveal takes the numbers of characters to show";
    let first = argument::count(arguments, 0, TAKES)?.unwrap_or(0);
    let last = argument::count(arguments, 1, TAKES)?.unwrap_or(0);
    let cover = argument::cover(arguments, 2, "reveal covers with one character")?;
    let keep = argument::text(arguments, 3);
    if value.is_null() {
        return Ok(value);
    }
    let text = text_of(&value);
    Ok(Datum::text(covered(&text, (first, last), cover, &keep)))
}

/// Shows the first and the last characters, unless these are all there is.
pub(crate) fn covered(
    text: &str,
    (first, last): (usize, usize),
    cover: char,
    keep: &str,
) -> String {
    let length = text.chars().count();
    let (shown, end) = if first.saturating_add(last) >= length {
        (0, length)
    } else {
        (first, length.saturating_sub(last))
    };
    let cover = |(at, c): (usize, char)| {
        if at < shown || at >= end || keep.contains(c) { c } else { cover }
    };
    text.chars().enumerate().map(cover).collect()
}
