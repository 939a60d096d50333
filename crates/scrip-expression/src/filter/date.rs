//! Dates as text, by the codes of `strftime`.
//!
//! There is no clock and no time zone of the machine: the same value and format always give the
//! same text. Where Liquid's implementations differ we do as the first one, in Ruby, which has
//! more codes. `jiff` writes each code; the ones it writes otherwise than Ruby are put in other words.

mod moment;

use jiff::fmt::strtime::BrokenDownTime;
use serde_json::Value;

use self::moment::Moment;
use super::{Filtered, Input};
use crate::{inner_steps::count, value::datum::Datum};

/// A code gives at most twelve times its own length, so this bounds the output as well.
const FORMAT_BYTES_MAX: usize = 256;
const NO_FORMAT: &str = "date takes a format";
const UNKNOWN: &str = "date does not know a code of its format";

/// Codes that `jiff` writes as Ruby does. It knows more, and other flags: these are refused.
const CODES: &str = "%AaBbCDdeFGgHhIjklMmNnPpRSTtUuVWwYyz";

pub(crate) fn date<'a>(Input { value, arguments, budget, .. }: Input<'_, 'a>) -> Filtered<'a> {
    let format = arguments.given(0).ok_or(NO_FORMAT)?;
    // A code is two bytes to read, but far more work than that.
    budget.steps(format.as_str().unwrap_or_default().matches('%').count())?;
    if value.is_null() {
        check(format)?;
        return Ok(value);
    }
    Ok(Datum::text(formatted(format, &Moment::of(&value)?)?))
}

/// Whether a format can be used does not depend on the date, so any will do.
pub(crate) fn check(format: &Value) -> Result<(), &'static str> {
    formatted(format, &Moment::EPOCH).map(drop)
}

fn formatted(format: &Value, moment: &Moment) -> Result<String, &'static str> {
    // Without a format Ruby gives the date as it is, liquidjs a format of its own.
    let format = format.as_str().filter(|it| !it.is_empty()).ok_or(NO_FORMAT)?;
    if format.len() > FORMAT_BYTES_MAX {
        return Err("the format is too long");
    }
    let parts = moment.broken_down().ok_or(UNKNOWN)?;
    expanded(format, moment, &parts).ok_or(UNKNOWN)
}

fn expanded(format: &str, moment: &Moment, parts: &BrokenDownTime) -> Option<String> {
    count(format.len());
    let mut text = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let (code, after) = Code::read(after)?;
        text.push_str(&code.text(moment, parts)?);
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

/// What stands after a `%`. As in Liquid, a flag that a code has no use for does nothing.
#[derive(Default)]
struct Code {
    /// `-`, `0` or `_`.
    padding: Option<char>,
    upper: bool,
    /// Only in `%:z`.
    colon: bool,
    /// How many digits of the second, only in `%N`.
    digits: Option<char>,
    letter: char,
}

impl Code {
    fn read(text: &str) -> Option<(Self, &str)> {
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
        let fits = !code.colon || code.letter == 'z';
        fits.then_some((code, chars.as_str()))
    }

    fn text(&self, moment: &Moment, parts: &BrokenDownTime) -> Option<String> {
        let text = match self.letter {
            // For all languages alike jiff has other forms.
            'c' => expanded("%a %b %e %H:%M:%S %Y", moment, parts)?,
            'r' => expanded("%I:%M:%S %p", moment, parts)?,
            'x' => expanded("%D", moment, parts)?,
            'X' => expanded("%T", moment, parts)?,
            // An instant of jiff's ends a day before the year 9999 does.
            's' => moment.unix_seconds().to_string(),
            'Z' if moment.offset_minutes == 0 => "UTC".to_owned(),
            'Z' => expanded("%z", moment, parts)?,
            'L' => expanded("%3N", moment, parts)?,
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
