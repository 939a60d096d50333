//! Parses date values.
//!
//! Liquid tries many formats and passes through values that are not dates. Here each format has one
//! interpretation, and everything else is an error: the text 20291231, read as seconds, would be a
//! day in 1970.

use jiff::{
    SignedDuration,
    civil::{Date, DateTime, Time, datetime},
    fmt::strtime::BrokenDownTime,
    tz::Offset,
};
use serde_json::Value;

const NOT_A_DATE: &str = "this is not a date";
const NO_CLOCK: &str = "date does not support now and today";

/// A date and time as written, and its offset from UTC.
pub(super) struct DateValue {
    /// With a precision of one second.
    pub(super) datetime: DateTime,
    pub(super) nanoseconds: u32,
    /// East is positive.
    pub(super) offset_minutes: i32,
}

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

impl DateValue {
    pub(super) const EPOCH: Self = Self { datetime: EPOCH, nanoseconds: 0, offset_minutes: 0 };

    pub(super) fn from_value(value: &Value) -> Result<Self, &'static str> {
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
    pub(super) fn broken_down(&self) -> Option<BrokenDownTime> {
        let offset = Offset::from_seconds(self.offset_minutes.checked_mul(60)?).ok()?;
        let mut parts = BrokenDownTime::from(self.datetime);
        parts.set_subsec_nanosecond(Some(i32::try_from(self.nanoseconds).ok()?)).ok()?;
        parts.set_offset(Some(offset));
        Some(parts)
    }

    pub(super) fn unix_seconds(&self) -> i64 {
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
