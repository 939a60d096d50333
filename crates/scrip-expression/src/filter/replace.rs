//! Filters that replace or remove text within text. A missing argument is empty text.

use super::{FilterResult, Input, text::map_text};
use crate::{inner_steps::count, value::datum::to_text};

/// A few characters can become many: the result is charged before it is created.
pub(crate) fn replace_all<'a>(
    Input { value, arguments, budget, .. }: Input<'_, 'a>,
) -> FilterResult<'a> {
    let (from, to) = (arguments.text(0), arguments.text(1));
    if !to.is_empty() {
        let text = to_text(&value);
        count(text.len().saturating_add(from.len()));
        let match_count = text.matches(&*from).count();
        budget.charge_bytes(match_count.saturating_mul(to.len()))?;
    }
    map_text(value, |text| text.replace(&*from, &to))
}

pub(crate) fn first<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let (from, to) = (arguments.text(0), arguments.text(1));
    map_text(value, |text| text.replacen(&*from, &to, 1))
}

pub(crate) fn replace_last_match<'a>(
    Input { value, arguments, .. }: Input<'_, 'a>,
) -> FilterResult<'a> {
    let (from, to) = (arguments.text(0), arguments.text(1));
    map_text(value, |text| match text.rsplit_once(&*from) {
        Some((before, after)) => [before, &to, after].concat(),
        None => text.to_owned(),
    })
}
