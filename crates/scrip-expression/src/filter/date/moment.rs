//! What counts as a date.
//!
//! Liquid tries many forms, and lets through what is none. Here each form has one reading, and the
//! rest is an error: the text 20291231, read as seconds, would be a day in 1970.

use jiff::{
    SignedDuration,
    civil::{Date, DateTime, Time, datetime},
    fmt::strtime::BrokenDownTime,
    tz::Offset,
};
use serde_json::Value;

const NONE: &str = "this is not a date";
const NO_CLOCK: &str = "there is no clock: date takes neither now nor today";

/// A time as it was written, and how far it is from UTC.
pub(super) struct Moment {
    /// To the second.
    pub(super) at: DateTime,
    pub(super) nanoseconds: u32,
    /// East is positive.
    pub(super) offset_minutes: i32,
}

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

impl Moment {
    pub(super) const EPOCH: Self = Self { at: EPOCH, nanoseconds: 0, offset_minutes: 0 };

    pub(super) fn of(value: &Value) -> Result<Self, &'static str> {
        let read = match value {
            Value::String(text)
                if ["now", "today"].iter().any(|it| text.eq_ignore_ascii_case(it)) =>
            {
                return Err(NO_CLOCK);
            }
            Value::String(text) => written(text),
            Value::Number(number) => number.as_i64().and_then(from_unix_seconds),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        // The years that have four digits and a name: there is no year nought.
        read.filter(|it| it.at.year() >= 1).ok_or(NONE)
    }

    /// As jiff writes it by codes. It can be no instant of jiff's: these end before the year 9999.
    pub(super) fn broken_down(&self) -> Option<BrokenDownTime> {
        let offset = Offset::from_seconds(self.offset_minutes.checked_mul(60)?).ok()?;
        let mut parts = BrokenDownTime::from(self.at);
        parts.set_subsec_nanosecond(Some(i32::try_from(self.nanoseconds).ok()?)).ok()?;
        parts.set_offset(Some(offset));
        Some(parts)
    }

    pub(super) fn unix_seconds(&self) -> i64 {
        let ahead = i64::from(self.offset_minutes).saturating_mul(60);
        self.at.duration_since(EPOCH).as_secs().saturating_sub(ahead)
    }
}

fn from_unix_seconds(seconds: i64) -> Option<Moment> {
    let at = EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok()?;
    Some(Moment { at, ..Moment::EPOCH })
}

/// `2029-12-31`, with a time and an offset or without, or `12/31/2029`.
fn written(text: &str) -> Option<Moment> {
    let mut cursor = Cursor { rest: text };
    let moment =
        if text.contains('/') { american(&mut cursor) } else { international(&mut cursor) };
    moment.filter(|_| cursor.rest.is_empty())
}

fn american(cursor: &mut Cursor<'_>) -> Option<Moment> {
    let month = cursor.number(1, 2)?;
    let day = cursor.after('/')?.number(1, 2)?;
    let year = cursor.after('/')?.number(4, 4)?;
    midnight(year, month, day)
}

fn international(cursor: &mut Cursor<'_>) -> Option<Moment> {
    let year = cursor.number(4, 4)?;
    let month = cursor.after('-')?.number(2, 2)?;
    let day = cursor.after('-')?.number(2, 2)?;
    let mut moment = midnight(year, month, day)?;
    if !cursor.takes(['T', 't', ' ']) {
        return Some(moment);
    }
    let hour = cursor.number(2, 2)?;
    let minute = cursor.after(':')?.number(2, 2)?;
    let mut second = 0;
    if cursor.takes([':']) {
        second = cursor.number(2, 2)?;
        if cursor.takes(['.']) {
            moment.nanoseconds = format!("{:0<9}", cursor.digits(1, 9)?).parse().ok()?;
        }
    }
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, 0).ok()?;
    moment.at = moment.at.date().to_datetime(time);
    if !cursor.rest.is_empty() {
        moment.offset_minutes = offset(cursor)?;
    }
    Some(moment)
}

/// `Z`, `+02:00` or `+0200`; a space may stand before it.
fn offset(cursor: &mut Cursor<'_>) -> Option<i32> {
    cursor.takes([' ']);
    if cursor.takes(['Z', 'z']) {
        return Some(0);
    }
    let east = cursor.takes(['+']);
    if !east && !cursor.takes(['-']) {
        return None;
    }
    let hours = cursor.number(2, 2).filter(|it| *it < 24)?;
    cursor.takes([':']);
    let minutes = cursor.number(2, 2).filter(|it| *it < 60)?;
    let minutes = i32::from(hours).checked_mul(60)?.checked_add(i32::from(minutes))?;
    if east { Some(minutes) } else { minutes.checked_neg() }
}

fn midnight(year: i16, month: i16, day: i16) -> Option<Moment> {
    let date = Date::new(year, small(month)?, small(day)?).ok()?;
    Some(Moment { at: date.to_datetime(Time::midnight()), ..Moment::EPOCH })
}

fn small(number: i16) -> Option<i8> {
    number.try_into().ok()
}

struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    fn takes<const N: usize>(&mut self, signs: [char; N]) -> bool {
        let rest = self.rest.strip_prefix(signs);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn after(&mut self, sign: char) -> Option<&mut Self> {
        self.takes([sign]).then_some(self)
    }

    /// As many as there are, up to the most.
    fn digits(&mut self, least: usize, most: usize) -> Option<&'t str> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        (count >= least).then_some(digits)
    }

    fn number(&mut self, least: usize, most: usize) -> Option<i16> {
        self.digits(least, most)?.parse().ok()
    }
}
