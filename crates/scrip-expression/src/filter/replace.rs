//! Filters that replace a text within a text.

use super::{Context, Filtered, argument, text::over};
use crate::{
    inner_steps::count,
    value::datum::{Datum, text_of},
};

pub(crate) fn remove<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let unwanted = argument::text(arguments, 0);
    everywhere(context, value, &unwanted, "")
}

pub(crate) fn replace<'a>(
    context: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let (from, to) = (argument::text(arguments, 0), argument::text(arguments, 1));
    everywhere(context, value, &from, &to)
}

/// Few characters can become many: the result is paid for before it is made.
fn everywhere<'a>(context: &Context<'_>, value: Datum<'a>, from: &str, to: &str) -> Filtered<'a> {
    if !to.is_empty() {
        let text = text_of(&value);
        count(text.len().saturating_add(from.len()));
        let places = text.matches(from).count();
        context.budget.bytes(places.saturating_mul(to.len()))?;
    }
    over(value, |text| text.replace(from, to))
}

pub(crate) fn remove_first<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let unwanted = argument::text(arguments, 0);
    over(value, |text| text.replacen(&*unwanted, "", 1))
}

pub(crate) fn replace_first<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let (from, to) = (argument::text(arguments, 0), argument::text(arguments, 1));
    over(value, |text| text.replacen(&*from, &to, 1))
}

pub(crate) fn remove_last<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let unwanted = argument::text(arguments, 0);
    over(value, |text| last(text, &unwanted, ""))
}

pub(crate) fn replace_last<'a>(
    _: &Context<'_>,
    value: Datum<'a>,
    arguments: &[Datum<'a>],
) -> Filtered<'a> {
    let (from, to) = (argument::text(arguments, 0), argument::text(arguments, 1));
    over(value, |text| last(text, &from, &to))
}

fn last(text: &str, from: &str, to: &str) -> String {
    match text.rsplit_once(from) {
        Some((before, after)) => [before, to, after].concat(),
        None => text.to_owned(),
    }
}
