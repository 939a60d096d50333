//! Time, as an argument.

use std::{fmt, time::Duration};

use jiff::{
    civil::{DateTime, time},
    tz::{Offset, TimeZone},
};

use crate::error::FieldError;

/// An instant, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    pub unix_ms: i64,
}

/// A machine's clock can be wrong, so there are three readings: the true time lies between the
/// earliest and the latest. Mostly all three are one.
pub trait Clock: Send + Sync {
    /// What is written down, and from which terms are counted. Never goes back.
    fn now(&self) -> Timestamp;

    /// Surely over: what ended by then may be destroyed for good.
    fn earliest(&self) -> Timestamp {
        self.now()
    }

    /// Perhaps over: what ends by then is not shown any more.
    fn latest(&self) -> Timestamp {
        self.now()
    }

    /// Begins again after what the vault is known to have seen, for a server whose vault has just
    /// been opened.
    fn start_after(&self, _watermark: Option<ClockWatermark>) {}
}

/// Counts from an instant that means nothing and never goes back: two readings tell how long
/// something took, and none tells when.
pub type MonotonicClock = fn() -> Duration;

impl Timestamp {
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { unix_ms: self.unix_ms.saturating_add(ms) }
    }

    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self { unix_ms: self.unix_ms.saturating_sub(ms) }
    }

    /// When a token expires, in the forms a client may write it:
    /// RFC 3339; the same without offset, which means UTC; `8/27/2030`, which means midnight UTC;
    /// `8/27/2030 7:23:57 PM +02:00`.
    ///
    /// # Errors
    /// It is none of these, or no such date.
    pub fn parse_expiry(text: &str) -> Result<Self, FieldError> {
        Self::parse_date("expires_at", text)
    }

    /// The same forms elsewhere.
    ///
    /// # Errors
    /// As for [`Timestamp::parse_expiry`].
    pub fn parse_date(field: &'static str, text: &str) -> Result<Self, FieldError> {
        let parsed = if text.contains('/') { parse_us_date(text) } else { parse_rfc3339(text) };
        let rule = "must be a date and time such as 2030-08-27T02:23:57+00:00, or 8/27/2030";
        parsed.ok_or_else(|| FieldError::new(field, rule))
    }
}

/// A month of the calendar in UTC, as a number in their order: 202611.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month(pub i64);

impl Month {
    /// The first there is for an instant that no calendar has.
    #[must_use]
    pub fn from_timestamp(instant: Timestamp) -> Self {
        let found = jiff::Timestamp::from_millisecond(instant.unix_ms).ok();
        let at = found.map(|it| Offset::UTC.to_datetime(it));
        let number = |it: DateTime| i64::from(it.year()) * 100 + i64::from(it.month());
        Self(at.map_or(0, number))
    }

    /// The same one of the year before.
    #[must_use]
    pub fn one_year_earlier(self) -> Self {
        Self(self.0.saturating_sub(100))
    }
}

/// RFC 3339 in UTC, to the second.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_millisecond(self.unix_ms).map_err(|_| fmt::Error)?;
        let at = Offset::UTC.to_datetime(instant);
        let (year, month, day) = (at.year(), at.month(), at.day());
        let (hour, minute, second) = (at.hour(), at.minute(), at.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
    }
}

fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    // The parser also reads forms that are not RFC 3339, such as time zone names in brackets.
    let bytes = text.as_bytes();
    let clock = bytes.get(10).is_some_and(|it| matches!(it, b'T' | b't' | b' '));
    let plain = bytes.iter().all(|it| it.is_ascii_digit() || b"Tt Zz+-:.".contains(it));
    if !clock || !plain {
        return None;
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(instant) => Some(Timestamp { unix_ms: instant.as_millisecond() }),
        Err(_) => to_timestamp(text.parse::<DateTime>().ok()?, Offset::UTC),
    }
}

fn parse_us_date(text: &str) -> Option<Timestamp> {
    let mut words = text.split(' ');
    let day = words.next().and_then(parse_month_day_year)?;
    let Some(clock) = words.next() else {
        return to_timestamp(day.to_datetime(time(0, 0, 0, 0)), Offset::UTC);
    };
    let half = words.next()?;
    let offset = words.next().and_then(parse_offset)?;
    if words.next().is_some() {
        return None;
    }
    let [hour, minute, second] = split_numbers(clock, ':')?;
    let hour = match (half, hour) {
        ("AM" | "PM", hour) if !(1..=12).contains(&hour) => return None,
        ("AM", hour) => hour % 12,
        ("PM", hour) => hour % 12 + 12,
        _ => return None,
    };
    let clock = jiff::civil::Time::new(to_i8(hour)?, to_i8(minute)?, to_i8(second)?, 0).ok()?;
    to_timestamp(day.to_datetime(clock), offset)
}

fn parse_month_day_year(text: &str) -> Option<jiff::civil::Date> {
    let [month, day, year] = split_numbers(text, '/')?;
    if !(1..=9999).contains(&year) || text.len() - text.rfind('/')? != 5 {
        return None;
    }
    jiff::civil::Date::new(i16::try_from(year).ok()?, to_i8(month)?, to_i8(day)?).ok()
}

fn parse_offset(text: &str) -> Option<Offset> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let [hours, minutes] = split_numbers(rest, ':')?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

fn split_numbers<const N: usize>(text: &str, separator: char) -> Option<[i32; N]> {
    let number = |it: &str| {
        let digits = (1..=4).contains(&it.len()) && it.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| it.parse().ok()).flatten()
    };
    let numbers: Option<Vec<i32>> = text.split(separator).map(number).collect();
    numbers?.try_into().ok()
}

fn to_i8(number: i32) -> Option<i8> {
    i8::try_from(number).ok()
}

fn to_timestamp(at: DateTime, offset: Offset) -> Option<Timestamp> {
    let zoned = at.to_zoned(TimeZone::fixed(offset)).ok()?;
    Some(Timestamp { unix_ms: zoned.timestamp().as_millisecond() })
}

/// How late it was by a server's clock, and how late at least: a run whose clock was ahead must not
/// make the next one destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockWatermark {
    pub now: Timestamp,
    pub earliest: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let actual = Timestamp::parse_expiry(text).ok().map(|it| it.to_string());
        assert_eq!(actual.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn expiry_accepts_rfc3339_and_us_dates() {
        check("2030-08-27T02:23:57+00:00", Some("2030-08-27T02:23:57+00:00"));
        check("2030-08-27T02:23:57Z", Some("2030-08-27T02:23:57+00:00"));
        check("2030-08-27T02:23:57.25-07:00", Some("2030-08-27T09:23:57+00:00"));
        check("2030-08-27T02:23:57", Some("2030-08-27T02:23:57+00:00"));
        check("2030-08-27 02:23", Some("2030-08-27T02:23:00+00:00"));
        check("8/27/2030", Some("2030-08-27T00:00:00+00:00"));
        check("08/27/2030", Some("2030-08-27T00:00:00+00:00"));
        check("8/27/2030 7:23:57 PM +02:00", Some("2030-08-27T17:23:57+00:00"));
        check("8/27/2030 12:00:00 AM -07:00", Some("2030-08-27T07:00:00+00:00"));
        check("8/27/2030 12:00:00 PM +00:00", Some("2030-08-27T12:00:00+00:00"));
    }

    #[test]
    fn invalid_expiry_dates_are_rejected() {
        let rejected = [
            "",
            "tomorrow",
            "2030-08-27",
            "27/8/2030",
            "2/30/2030",
            "8/27/30",
            "8/27/2030 7:23 PM +02:00",
            "8/27/2030 13:00:00 PM +00:00",
            "8/27/2030 0:00:00 AM +00:00",
            "8/27/2030 7:23:57 PM",
            "8/27/2030 7:23:57 PM +02:00 x",
            "2030-13-01T00:00:00Z",
            "2030-08-27T25:00:00Z",
            "2030-08-27T02:23:57[Europe/Paris]",
            "２030-08-27T02:23:57Z",
            "8/27/2030 7:23:57 PM +2:00",
        ];
        for text in rejected {
            check(text, None);
        }
    }
}
