//! Every filter the language has. Adding one is adding a line to [`FILTERS`].

use std::{borrow::Cow, ops::RangeInclusive};

use serde_json::Value;

type Filtered = Result<Value, &'static str>;

#[derive(Debug)]
pub(crate) struct Filter {
    name: &'static str,
    pub(crate) arguments: RangeInclusive<usize>,
    pub(crate) run: fn(&Value, &[Value]) -> Filtered,
}

const FILTERS: &[Filter] = &[
    Filter { name: "json_stringify", arguments: 0..=0, run: stringify },
    Filter { name: "last4", arguments: 0..=0, run: last4 },
    Filter { name: "remove", arguments: 1..=1, run: remove },
    Filter { name: "reveal_last", arguments: 1..=2, run: reveal_last },
    Filter { name: "stringify", arguments: 0..=0, run: stringify },
];

pub(crate) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|it| it.name == name)
}

/// A value within a text: null is nothing, text is itself, the rest is compact JSON.
pub(crate) fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(value.to_string())
        }
    }
}

fn stringify(value: &Value, _: &[Value]) -> Filtered {
    if value.is_null() {
        return Ok(Value::Null);
    }
    Ok(Value::String(text_of(value).into_owned()))
}

fn last4(value: &Value, _: &[Value]) -> Filtered {
    let text = text_of(value);
    let hidden = text.chars().count().saturating_sub(4);
    Ok(Value::String(text.chars().skip(hidden).collect()))
}

fn remove(value: &Value, arguments: &[Value]) -> Filtered {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let unwanted = arguments.first().map(text_of).unwrap_or_default();
    Ok(Value::String(text_of(value).replace(&*unwanted, "")))
}

/// Every character but the last n becomes `char`; dashes stay, so that a shape stays readable.
fn reveal_last(value: &Value, arguments: &[Value]) -> Filtered {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let keep = arguments.first().and_then(Value::as_u64);
    let keep = keep.ok_or("reveal_last takes the number of characters to keep")?;
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let cover = match arguments.get(1).map(text_of) {
        None => 'X',
        Some(text) => single(&text).ok_or("reveal_last covers with one character")?,
    };
    let text = text_of(value);
    let hidden = text.chars().count().saturating_sub(keep);
    let covered = |(at, c)| if at < hidden && c != '-' { cover } else { c };
    Ok(Value::String(text.chars().enumerate().map(covered).collect()))
}

fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}
