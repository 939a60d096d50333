//! Text filters, keyed hashes and encodings of bytes. A missing argument of a replacement is empty text.

use std::borrow::Cow;

use base64::{Engine, engine::GeneralPurpose};
use serde_json::Value;

use super::{Arguments, FilterResult, Input, input::single_character};
use crate::{
    OUTPUT_BYTES_MAX,
    filter::input::HmacAlgorithm,
    inner_steps::{count, count_value},
    value::datum::{Datum, to_text},
};

/// For a filter that maps text to text.
pub(crate) fn map_text<'a>(
    value: Datum<'a>,
    change: impl FnOnce(&str) -> String,
) -> FilterResult<'a> {
    if value.is_null() {
        return Ok(value);
    }
    let text = to_text(&value);
    let new_text = change(&text);
    count(text.len().saturating_add(new_text.len()));
    Ok(Datum::from_text(new_text))
}

pub(crate) fn append<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    concat_text([to_text(&value), arguments.text(0)])
}

pub(crate) fn prepend<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    concat_text([arguments.text(0), to_text(&value)])
}

fn concat_text<'a>(parts: [Cow<'_, str>; 2]) -> FilterResult<'a> {
    let text = parts.concat();
    count(text.len());
    Ok(Datum::from_text(text))
}

pub(crate) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars.as_str().to_lowercase().chars()).collect()
}

pub(crate) fn pad_left<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let build_padding = build_padding(&value, arguments)?;
    map_text(value, |text| build_padding + text)
}

pub(crate) fn pad_right<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let build_padding = build_padding(&value, arguments)?;
    map_text(value, |text| text.to_owned() + &build_padding)
}

fn build_padding(value: &Value, arguments: Arguments<'_, '_>) -> Result<String, &'static str> {
    const TAKES: &str = "padding takes a length and one character";
    let length = arguments.count(0, TAKES)?.ok_or(TAKES)?;
    let character = arguments.non_null(1).map_or(" ".into(), to_text);
    let character = single_character(&character).ok_or(TAKES)?;
    if length > OUTPUT_BYTES_MAX {
        return Err("the output is too large");
    }
    let text = to_text(value);
    let missing = length.saturating_sub(text.chars().count());
    count(text.len().saturating_add(missing));
    Ok(std::iter::repeat_n(character, missing).collect())
}

/// Returns a part of a text or a list. The start counts from the end if negative; the default
/// length is one character or item.
pub(crate) fn slice<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    const TAKES: &str = "slice takes a start and a length";
    let start = arguments.integer(0, TAKES)?.ok_or(TAKES)?;
    let length = arguments.integer(1, TAKES)?.unwrap_or(1);
    let length = usize::try_from(length).unwrap_or(0);
    let start_index = |size: usize| match usize::try_from(start) {
        Ok(start) => start,
        Err(_) => {
            let distance_from_end = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
            // A start before the beginning gives an empty result.
            size.checked_sub(distance_from_end).unwrap_or(usize::MAX)
        }
    };
    if let Value::Array(items) = &*value {
        let selected = items.iter().skip(start_index(items.len())).take(length);
        let selected = selected.inspect(|it| count_value(it)).cloned();
        return Ok(Datum::Owned(selected.collect()));
    }
    map_text(value, |text| {
        text.chars().skip(start_index(text.chars().count())).take(length).collect()
    })
}

/// Splits at separators and drops empty parts at the end. Splits into characters if the separator
/// is empty.
pub(crate) fn split<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    /// The minimum memory of a short string in a list.
    const PIECE_BYTES: usize = 32;
    let (text, separator) = (to_text(&value), arguments.text(0));
    let pieces = if separator.is_empty() {
        text.chars().count()
    } else {
        text.matches(&*separator).count().saturating_add(1)
    };
    count(text.len().saturating_add(separator.len()));
    budget.charge_bytes(pieces.saturating_mul(PIECE_BYTES))?;
    count(text.len().saturating_add(pieces));
    let mut items: Vec<Value> = if separator.is_empty() {
        text.chars().map(|it| Value::String(it.into())).collect()
    } else {
        text.split(&*separator).map(Value::from).collect()
    };
    while items.last().and_then(Value::as_str) == Some("") {
        items.pop();
    }
    Ok(Datum::Owned(Value::Array(items)))
}

/// Truncates to a length that includes the ellipsis.
pub(crate) fn truncate<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let length = arguments.count(0, "truncate takes a length")?.unwrap_or(50);
    let ellipsis = arguments.non_null(1).map_or("...".into(), to_text);
    map_text(value, |text| {
        if text.chars().count() <= length {
            return text.to_owned();
        }
        let kept_length = length.saturating_sub(ellipsis.chars().count());
        text.chars().take(kept_length).chain(ellipsis.chars()).collect()
    })
}

pub(crate) fn truncatewords<'a>(Input { value, arguments, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let words = arguments.count(0, "truncatewords takes a number of words")?;
    let words = words.unwrap_or(15).max(1);
    let ellipsis = arguments.non_null(1).map_or("...".into(), to_text);
    map_text(value, |text| {
        if text.split_whitespace().count() <= words {
            return text.to_owned();
        }
        let kept_words: Vec<&str> = text.split_whitespace().take(words).collect();
        [kept_words.join(" ").as_str(), &ellipsis].concat()
    })
}

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

pub(crate) fn replace_first_match<'a>(
    Input { value, arguments, .. }: Input<'_, 'a>,
) -> FilterResult<'a> {
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

pub(crate) fn hmac<'a>(input: Input<'_, 'a>) -> FilterResult<'a> {
    let algorithm = HmacAlgorithm::parse(&input.arguments.text(0));
    let algorithm = algorithm.ok_or("hmac supports sha-1, sha-256 and sha-512")?;
    let key = input.arguments.text(1);
    if key.is_empty() {
        return Err("hmac takes a key");
    }
    let host = input.host.ok_or("hmac is not available here")?;
    if input.value.is_null() {
        return Ok(input.value);
    }
    let message = to_text(&input.value);
    input.budget.charge_bytes(message.len().saturating_mul(HASH_WORK))?;
    count(message.len().saturating_mul(HASH_WORK).saturating_add(key.len()));
    Ok(Datum::from_bytes(host.hmac(algorithm, key.as_bytes(), message.as_bytes())))
}

/// Hashing a byte takes about as long as reading this many bytes.
const HASH_WORK: usize = 4;

/// Encodes the bytes of an `hmac`, or the bytes of text.
pub(crate) fn encode_value<'a>(
    input: Input<'_, 'a>,
    encode: impl Fn(&[u8]) -> String,
) -> FilterResult<'a> {
    match &input.value {
        Datum::Bytes { raw, .. } => {
            count(raw.len());
            Ok(Datum::from_text(encode(raw)))
        }
        Datum::Borrowed(_) | Datum::Owned(_) | Datum::Shared(_) | Datum::Empty | Datum::Blank => {
            map_text(input.value, |text| encode(text.as_bytes()))
        }
    }
}

pub(crate) fn to_base64<'a>(input: Input<'_, 'a>, engine: &GeneralPurpose) -> FilterResult<'a> {
    encode_value(input, |it| engine.encode(it))
}

pub(crate) fn from_base64<'a>(input: Input<'_, 'a>, engine: &GeneralPurpose) -> FilterResult<'a> {
    if input.value.is_null() {
        return Ok(input.value);
    }
    let text = to_text(&input.value);
    count(text.len());
    let bytes = engine.decode(&*text).map_err(|_| "this is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "the decoded base64 is not UTF-8 text")?;
    Ok(Datum::from_text(text))
}
