//! Filters that replace a text within a text, or remove it: the text that is not given is empty.

use super::{Filtered, Input, text::over};
use crate::{inner_steps::count, value::datum::text_of};

/// Few characters can become many: the result is paid for before it is made.
pub(crate) fn everywhere<'a>(
    Input { value, arguments, budget, .. }: Input<'_, 'a>,
) -> Filtered<'a> {
    let (from, to) = (arguments.text(0), arguments.text(1));
    if !to.is_empty() {
        let text = text_of(&value);
        count(text.len().saturating_add(from.len()));
        let places = text.matches(&*from).count();
        budget.bytes(places.saturating_mul(to.len()))?;
    }
    over(value, |text| text.replace(&*from, &to))
}

pub(crate) fn first<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let (from, to) = (arguments.text(0), arguments.text(1));
    over(value, |text| text.replacen(&*from, &to, 1))
}

pub(crate) fn last<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let (from, to) = (arguments.text(0), arguments.text(1));
    over(value, |text| match text.rsplit_once(&*from) {
        Some((before, after)) => [before, &to, after].concat(),
        None => text.to_owned(),
    })
}
