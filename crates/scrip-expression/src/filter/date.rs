//! Formats dates with `strftime` codes.
//!
//! The filter uses no clock and no time zone of the machine: the same value and format always give
//! the same text. If implementations of Liquid differ, we follow the original one in Ruby, which
//! has more codes. `jiff` formats each code; codes that it formats differently from Ruby are
//! rewritten.

mod date_value;

use jiff::fmt::strtime::BrokenDownTime;
use serde_json::Value;

use self::date_value::DateValue;
use super::{FilterResult, Input};
use crate::{inner_steps::count, value::datum::Datum};

/// A code expands to at most twelve times its length, so this limit also bounds the output.
const FORMAT_BYTES_MAX: usize = 256;
const NO_FORMAT: &str = "date takes a format";
const UNKNOWN_CODE: &str = "unknown code in the date format";

/// Codes that `jiff` formats like Ruby. `jiff` supports more codes and flags, which are rejected
/// here.
const CODES: &str = "%AaBbCDdeFGgHhIjklMmNnPpRSTtUuVWwYyz";

pub(crate) fn date<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let format = arguments.non_null(0).ok_or(NO_FORMAT)?;
    // A code has only two bytes, but costs far more work than reading them.
    budget.charge_steps(format.as_str().unwrap_or_default().matches('%').count())?;
    if value.is_null() {
        check_format(format)?;
        return Ok(value);
    }
    Ok(Datum::from_text(format_date(format, &DateValue::from_value(&value)?)?))
}

/// The validity of a format does not depend on the date, so any date can be used for the check.
pub(crate) fn check_format(format: &Value) -> Result<(), &'static str> {
    format_date(format, &DateValue::EPOCH).map(drop)
}

fn format_date(format: &Value, moment: &DateValue) -> Result<String, &'static str> {
    // Without a format, Ruby returns the value unchanged and liquidjs uses a default format.
    let format = format.as_str().filter(|it| !it.is_empty()).ok_or(NO_FORMAT)?;
    if format.len() > FORMAT_BYTES_MAX {
        return Err("the format is too long");
    }
    let parts = moment.broken_down().ok_or(UNKNOWN_CODE)?;
    expand_format(format, moment, &parts).ok_or(UNKNOWN_CODE)
}

fn expand_format(format: &str, moment: &DateValue, parts: &BrokenDownTime) -> Option<String> {
    count(format.len());
    let mut text = String::new();
    let mut remaining = format;
    while let Some((text_before, text_after)) = remaining.split_once('%') {
        text.push_str(text_before);
        let (code, text_after) = FormatCode::parse(text_after)?;
        text.push_str(&code.format(moment, parts)?);
        remaining = text_after;
    }
    text.push_str(remaining);
    Some(text)
}

/// The part after a `%`. As in Liquid, a flag that does not apply to a code has no effect.
#[derive(Default)]
struct FormatCode {
    /// `-`, `0` or `_`.
    padding: Option<char>,
    upper: bool,
    /// Only in `%:z`.
    colon: bool,
    /// The number of digits of the fractional second, only in `%N`.
    digits: Option<char>,
    letter: char,
}

impl FormatCode {
    fn parse(text: &str) -> Option<(Self, &str)> {
        let mut code = Self::default();
        let mut chars = text.chars();
        loop {
            match chars.next()? {
                flag @ ('-' | '0' | '_') => code.padding = Some(flag),
                '^' => code.upper = true,
                ':' if !code.colon => code.colon = true,
                digit @ '1'..='9' => {
                    code.digits = Some(digit);
                    code.letter = chars.next().filter(|it| *it == 'N')?;
                    break;
                }
                letter => {
                    code.letter = letter;
                    break;
                }
            }
        }
        let is_valid = !code.colon || code.letter == 'z';
        is_valid.then_some((code, chars.as_str()))
    }

    fn format(&self, moment: &DateValue, parts: &BrokenDownTime) -> Option<String> {
        let text = match self.letter {
            // jiff's locale-independent forms of these codes differ from Ruby's.
            'c' => expand_format("%a %b %e %H:%M:%S %Y", moment, parts)?,
            'r' => expand_format("%I:%M:%S %p", moment, parts)?,
            'x' => expand_format("%D", moment, parts)?,
            'X' => expand_format("%T", moment, parts)?,
            // jiff's timestamps end one day before the end of the year 9999.
            's' => moment.unix_seconds().to_string(),
            'Z' if moment.offset_minutes == 0 => "UTC".to_owned(),
            'Z' => expand_format("%z", moment, parts)?,
            'L' => expand_format("%3N", moment, parts)?,
            letter if CODES.contains(letter) => parts.to_string(self.directive()).ok()?,
            _ => return None,
        };
        Some(if self.upper { text.to_uppercase() } else { text })
    }

    /// The code in jiff's syntax: one flag, then a width.
    fn directive(&self) -> String {
        let (padding, letter) = (self.padding.map(String::from).unwrap_or_default(), self.letter);
        match letter {
            // Truncated, not rounded: a time is not formatted as a later second.
            'N' => format!("%{}N", self.digits.unwrap_or('9')),
            // jiff pads to two digits only with an explicit width.
            'C' if padding.is_empty() => "%02C".to_owned(),
            'C' if padding != "-" => format!("%{padding}2C"),
            _ => format!("%{padding}{}{letter}", if self.colon { ":" } else { "" }),
        }
    }
}
