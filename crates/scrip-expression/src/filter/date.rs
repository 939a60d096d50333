//! Formats dates with `strftime` codes.
//!
//! The filter uses no clock and no time zone of the machine: the same value and format always give
//! the same text. If implementations of Liquid differ, we follow the original one in Ruby, which
//! has more codes. `jiff` formats each code; codes that it formats differently from Ruby are
//! rewritten.
//!
//! Liquid tries many formats of values and passes through values that are not dates. Here each format
//! has one interpretation, and everything else is an error: the text 20291231, read as seconds, would
//! be a day in 1970.

use jiff::{
    SignedDuration,
    civil::{Date, DateTime, Time, datetime},
    fmt::strtime::BrokenDownTime,
    tz::Offset,
};
use serde_json::Value;

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

const NOT_A_DATE: &str = "this is not a date";
const NO_CLOCK: &str = "date does not support now and today";

/// A date and time as written, and its offset from UTC.
struct DateValue {
    /// With a precision of one second.
    datetime: DateTime,
    nanoseconds: u32,
    /// East is positive.
    offset_minutes: i32,
}

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

impl DateValue {
    const EPOCH: Self = Self { datetime: EPOCH, nanoseconds: 0, offset_minutes: 0 };

    fn from_value(value: &Value) -> Result<Self, &'static str> {
        let date = match value {
            Value::String(text)
                if ["now", "today"].iter().any(|it| text.eq_ignore_ascii_case(it)) =>
            {
                return Err(NO_CLOCK);
            }
            Value::String(text) => parse_text(text),
            Value::Number(number) => number.as_i64().and_then(from_unix_seconds),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        // Years with four digits. There is no year 0.
        date.filter(|it| it.datetime.year() >= 1).ok_or(NOT_A_DATE)
    }

    /// The date for jiff's formatter. It is not a jiff timestamp, because those end before the end
    /// of the year 9999.
    fn broken_down(&self) -> Option<BrokenDownTime> {
        let offset = Offset::from_seconds(self.offset_minutes.checked_mul(60)?).ok()?;
        let mut parts = BrokenDownTime::from(self.datetime);
        parts.set_subsec_nanosecond(Some(i32::try_from(self.nanoseconds).ok()?)).ok()?;
        parts.set_offset(Some(offset));
        Some(parts)
    }

    fn unix_seconds(&self) -> i64 {
        let ahead = i64::from(self.offset_minutes).saturating_mul(60);
        self.datetime.duration_since(EPOCH).as_secs().saturating_sub(ahead)
    }
}

fn from_unix_seconds(seconds: i64) -> Option<DateValue> {
    let datetime = EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    Some(DateValue { datetime, ..DateValue::EPOCH })
}

/// `2029-12-31`, with or without a time and an offset, or `12/31/2029`.
fn parse_text(text: &str) -> Option<DateValue> {
    let mut cursor = DateCursor { rest: text };
    let moment =
        if text.contains('/') { parse_american(&mut cursor) } else { parse_iso(&mut cursor) };
    moment.filter(|_| cursor.rest.is_empty())
}

fn parse_american(cursor: &mut DateCursor<'_>) -> Option<DateValue> {
    let month = cursor.number(1, 2)?;
    let day = cursor.expect_character('/')?.number(1, 2)?;
    let year = cursor.expect_character('/')?.number(4, 4)?;
    at_midnight(year, month, day)
}

fn parse_iso(cursor: &mut DateCursor<'_>) -> Option<DateValue> {
    let year = cursor.number(4, 4)?;
    let month = cursor.expect_character('-')?.number(2, 2)?;
    let day = cursor.expect_character('-')?.number(2, 2)?;
    let mut moment = at_midnight(year, month, day)?;
    if !cursor.accept(['T', 't', ' ']) {
        return Some(moment);
    }
    let hour = cursor.number(2, 2)?;
    let minute = cursor.expect_character(':')?.number(2, 2)?;
    let mut second = 0;
    if cursor.accept([':']) {
        second = cursor.number(2, 2)?;
        if cursor.accept(['.']) {
            moment.nanoseconds = format!("{:0<9}", cursor.digits(1, 9)?).parse().ok()?;
        }
    }
    let time = Time::new(to_i8(hour)?, to_i8(minute)?, to_i8(second)?, 0).ok()?;
    moment.datetime = moment.datetime.date().to_datetime(time);
    if !cursor.rest.is_empty() {
        moment.offset_minutes = parse_offset(cursor)?;
    }
    Some(moment)
}

/// `Z`, `+02:00` or `+0200`, optionally after a space.
fn parse_offset(cursor: &mut DateCursor<'_>) -> Option<i32> {
    cursor.accept([' ']);
    if cursor.accept(['Z', 'z']) {
        return Some(0);
    }
    let east = cursor.accept(['+']);
    if !east && !cursor.accept(['-']) {
        return None;
    }
    let hours = cursor.number(2, 2).filter(|it| *it < 24)?;
    cursor.accept([':']);
    let minutes = cursor.number(2, 2).filter(|it| *it < 60)?;
    let minutes = i32::from(hours).checked_mul(60)?.checked_add(i32::from(minutes))?;
    if east { Some(minutes) } else { minutes.checked_neg() }
}

fn at_midnight(year: i16, month: i16, day: i16) -> Option<DateValue> {
    let date = Date::new(year, to_i8(month)?, to_i8(day)?).ok()?;
    Some(DateValue { datetime: date.to_datetime(Time::midnight()), ..DateValue::EPOCH })
}

fn to_i8(number: i16) -> Option<i8> {
    number.try_into().ok()
}

struct DateCursor<'t> {
    rest: &'t str,
}

impl<'t> DateCursor<'t> {
    fn accept<const N: usize>(&mut self, characters: [char; N]) -> bool {
        let rest = self.rest.strip_prefix(characters);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect_character(&mut self, sign: char) -> Option<&mut Self> {
        self.accept([sign]).then_some(self)
    }

    /// Reads as many digits as there are, up to `maximum`. Returns `None` if there are fewer than
    /// `minimum`.
    fn digits(&mut self, minimum: usize, maximum: usize) -> Option<&'t str> {
        let count = self.rest.bytes().take(maximum).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        (count >= minimum).then_some(digits)
    }

    fn number(&mut self, minimum: usize, maximum: usize) -> Option<i16> {
        self.digits(minimum, maximum)?.parse().ok()
    }
}
