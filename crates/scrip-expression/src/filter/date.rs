//! Dates as text, by the codes of `strftime`.
//!
//! There is no clock and no time zone of the machine: the same value and format always give the
//! same text. Where Liquid's implementations differ we do as the first one, in Ruby, which has
//! more codes. `jiff` writes each code; the ones it writes otherwise than Ruby are put in other words.

mod date_value;

use jiff::fmt::strtime::BrokenDownTime;
use serde_json::Value;

use self::date_value::DateValue;
use super::{FilterResult, Input};
use crate::{inner_steps::count, value::datum::Datum};

/// A code gives at most twelve times its own length, so this bounds the output as well.
const FORMAT_BYTES_MAX: usize = 256;
const NO_FORMAT: &str = "date takes a format";
const UNKNOWN_CODE: &str = "date does not know a code of its format";

/// Codes that `jiff` writes as Ruby does. It knows more, and other flags: these are refused.
const CODES: &str = "%AaBbCDdeFGgHhIjklMmNnPpRSTtUuVWwYyz";

pub(crate) fn date<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> FilterResult<'a> {
    let format = arguments.non_null(0).ok_or(NO_FORMAT)?;
    // A code is two bytes to read, but far more work than that.
    budget.charge_steps(format.as_str().unwrap_or_default().matches('%').count())?;
    if value.is_null() {
        check_format(format)?;
        return Ok(value);
    }
    Ok(Datum::from_text(format_date(format, &DateValue::from_value(&value)?)?))
}

/// Whether a format can be used does not depend on the date, so any will do.
pub(crate) fn check_format(format: &Value) -> Result<(), &'static str> {
    format_date(format, &DateValue::EPOCH).map(drop)
}

fn format_date(format: &Value, moment: &DateValue) -> Result<String, &'static str> {
    // Without a format Ruby gives the date as it is, liquidjs a format of its own.
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
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let (code, after) = FormatCode::parse(after)?;
        text.push_str(&code.format(moment, parts)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// What stands after a `%`. As in Liquid, a flag that a code has no use for does nothing.
#[derive(Default)]
struct FormatCode {
    /// `-`, `0` or `_`.
    padding: Option<char>,
    upper: bool,
    /// Only in `%:z`.
    colon: bool,
    /// How many digits of the second, only in `%N`.
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
            // For all languages alike jiff has other forms.
            'c' => expand_format("%a %b %e %H:%M:%S %Y", moment, parts)?,
            'r' => expand_format("%I:%M:%S %p", moment, parts)?,
            'x' => expand_format("%D", moment, parts)?,
            'X' => expand_format("%T", moment, parts)?,
            // An instant of jiff's ends a day before the year 9999 does.
            's' => moment.unix_seconds().to_string(),
            'Z' if moment.offset_minutes == 0 => "UTC".to_owned(),
            'Z' => expand_format("%z", moment, parts)?,
            'L' => expand_format("%3N", moment, parts)?,
            letter if CODES.contains(letter) => parts.to_string(self.directive()).ok()?,
            _ => return None,
        };
        Some(if self.upper { text.to_uppercase() } else { text })
    }

    /// The code as jiff reads it: one flag, then a width.
    fn directive(&self) -> String {
        let (padding, letter) = (self.padding.map(String::from).unwrap_or_default(), self.letter);
        match letter {
            // Cut, not rounded: a second that is not over has not come.
            'N' => format!("%{}N", self.digits.unwrap_or('9')),
            // Two digits, which jiff gives only if it is told so.
            'C' if padding.is_empty() => "%02C".to_owned(),
            'C' if padding != "-" => format!("%{padding}2C"),
            _ => format!("%{padding}{}{letter}", if self.colon { ":" } else { "" }),
        }
    }
}
