//! Time types. The current time is always an argument.

use std::{fmt, time::Duration};

use jiff::{
    civil::{DateTime, time},
    tz::{Offset, TimeZone},
};

use crate::FieldError;

/// A point in time with millisecond precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    pub unix_ms: i64,
}

/// A clock with three readings, because the clock of a machine can be wrong: the true time is
/// between `earliest` and `latest`. Usually all three are equal.
pub trait Clock: Send + Sync {
    /// The time for records and for computing expiry. Never decreases.
    fn now(&self) -> Timestamp;

    /// The earliest possible time: data that expired by then may be destroyed permanently.
    fn earliest(&self) -> Timestamp {
        self.now()
    }

    /// The latest possible time: data that expires by then is no longer returned.
    fn latest(&self) -> Timestamp {
        self.now()
    }

    /// Restarts the clock after the saved watermark, when the vault has just been unsealed.
    fn start_after(&self, _watermark: Option<ClockWatermark>) {}
}

/// A monotonic clock with an arbitrary origin: only the difference of two readings has a meaning.
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

    /// Parses the expiry of a token, in the forms that clients may use: RFC 3339; `8/27/2030`, which
    /// means midnight UTC; `8/27/2030 7:23:57 PM +02:00`; `08/27/2030 19:23:57 +02:00`. A time
    /// without an offset is UTC.
    ///
    /// Errors: the text has none of these forms, or there is no such date.
    pub fn parse_expiry(text: &str) -> Result<Self, FieldError> {
        Self::parse_date("expires_at", text)
    }

    /// As [`Timestamp::parse_expiry`], for another field.
    /// Errors: as for [`Timestamp::parse_expiry`].
    pub fn parse_date(field: &'static str, text: &str) -> Result<Self, FieldError> {
        let parsed = if text.contains('/') { parse_us_date(text) } else { parse_rfc3339(text) };
        let rule = "must be a date and time such as 2030-08-27T02:23:57+00:00, or 8/27/2030";
        parsed.ok_or_else(|| FieldError::new(field, rule))
    }
}

/// A calendar month in UTC, as a sortable number: 202611.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month(pub i64);

impl Month {
    /// The month of a time. The earliest month for a time outside of the calendar.
    pub fn from_timestamp(instant: Timestamp) -> Self {
        let timestamp = jiff::Timestamp::from_millisecond(instant.unix_ms).ok();
        let date_time = timestamp.map(|it| Offset::UTC.to_datetime(it));
        let to_number = |it: DateTime| i64::from(it.year()) * 100 + i64::from(it.month());
        Self(date_time.map_or(0, to_number))
    }

    /// The same month of the previous year.
    #[must_use]
    pub fn minus_one_year(self) -> Self {
        Self(self.0.saturating_sub(100))
    }
}

/// RFC 3339 in UTC, to the second.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A stored time may have been altered. The text of the nearest valid time is better than an
        // error, because `to_string` panics on one.
        let nearest = || match self.unix_ms < 0 {
            true => jiff::Timestamp::MIN,
            false => jiff::Timestamp::MAX,
        };
        let instant = jiff::Timestamp::from_millisecond(self.unix_ms);
        let instant = instant.unwrap_or_else(|_| nearest());
        let date_time = Offset::UTC.to_datetime(instant);
        let (year, month, day) = (date_time.year(), date_time.month(), date_time.day());
        let (hour, minute, second) = (date_time.hour(), date_time.minute(), date_time.second());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
    }
}

fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    // The parser also accepts forms that are not RFC 3339, such as time zone names in brackets.
    let bytes = text.as_bytes();
    let has_time = bytes.get(10).is_some_and(|it| matches!(it, b'T' | b't' | b' '));
    let has_allowed_characters =
        bytes.iter().all(|it| it.is_ascii_digit() || b"Tt Zz+-:.".contains(it));
    if !has_time || !has_allowed_characters {
        return None;
    }
    match text.parse::<jiff::Timestamp>() {
        Ok(instant) => Some(Timestamp { unix_ms: instant.as_millisecond() }),
        Err(_) => to_timestamp(text.parse::<DateTime>().ok()?, Offset::UTC),
    }
}

fn parse_us_date(text: &str) -> Option<Timestamp> {
    let mut words = text.split(' ');
    let date = words.next().and_then(parse_month_day_year)?;
    let Some(time_text) = words.next() else {
        return to_timestamp(date.to_datetime(time(0, 0, 0, 0)), Offset::UTC);
    };
    let mut words = words.peekable();
    let half_of_day = words.next_if(|it| matches!(*it, "AM" | "PM"));
    let time_of_day = parse_time_of_day(time_text, half_of_day)?;
    let offset = words.next().map_or(Some(Offset::UTC), parse_offset)?;
    if words.next().is_some() {
        return None;
    }
    to_timestamp(date.to_datetime(time_of_day), offset)
}

/// Parses a time of day. Without `AM` or `PM`, the hour is from `00` to `23` with two digits.
fn parse_time_of_day(text: &str, half_of_day: Option<&str>) -> Option<jiff::civil::Time> {
    let [hour, minute, second] = split_numbers(text, ':')?;
    let hour = match (half_of_day, hour) {
        (Some(_), hour) if !(1..=12).contains(&hour) => return None,
        (Some("AM"), hour) => hour % 12,
        (Some(_), hour) => hour % 12 + 12,
        (None, _) if text.find(':') != Some(2) => return None,
        (None, hour) => hour,
    };
    jiff::civil::Time::new(to_i8(hour)?, to_i8(minute)?, to_i8(second)?, 0).ok()
}

fn parse_month_day_year(text: &str) -> Option<jiff::civil::Date> {
    let [month, day, year] = split_numbers(text, '/')?;
    if !(1..=9999).contains(&year) || text.len() - text.rfind('/')? != 5 {
        return None;
    }
    jiff::civil::Date::new(i16::try_from(year).ok()?, to_i8(month)?, to_i8(day)?).ok()
}

fn parse_offset(text: &str) -> Option<Offset> {
    let (sign, hours_and_minutes) = match text.split_at_checked(1)? {
        ("+", hours_and_minutes) => (1, hours_and_minutes),
        ("-", hours_and_minutes) => (-1, hours_and_minutes),
        _ => return None,
    };
    let (hours, minutes) = hours_and_minutes.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let [hours, minutes] = split_numbers(hours_and_minutes, ':')?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
}

fn split_numbers<const N: usize>(text: &str, separator: char) -> Option<[i32; N]> {
    let parse_number = |it: &str| {
        let is_number = (1..=4).contains(&it.len()) && it.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| it.parse().ok()).flatten()
    };
    let numbers: Option<Vec<i32>> = text.split(separator).map(parse_number).collect();
    numbers?.try_into().ok()
}

fn to_i8(number: i32) -> Option<i8> {
    i8::try_from(number).ok()
}

fn to_timestamp(date_time: DateTime, offset: Offset) -> Option<Timestamp> {
    let zoned = date_time.to_zoned(TimeZone::fixed(offset)).ok()?;
    Some(Timestamp { unix_ms: zoned.timestamp().as_millisecond() })
}

/// The saved clock state: the time of a server's clock, and the earliest possible time. Both are
/// saved, because after a run with a clock that was ahead, the next run must not destroy data
/// early.
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
        assert_eq!(actual.as_deref(), expected, "expiry {text:?}");
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
        check("8/26/2030 7:23:57 PM", Some("2030-08-26T19:23:57+00:00"));
        check("8/26/2030 12:00:00 AM", Some("2030-08-26T00:00:00+00:00"));
        check("08/26/2030 19:23:57", Some("2030-08-26T19:23:57+00:00"));
        check("08/26/2030 19:23:57 +00:00", Some("2030-08-26T19:23:57+00:00"));
        check("08/26/2030 00:23:57 -07:00", Some("2030-08-26T07:23:57+00:00"));
    }

    #[test]
    fn times_beyond_the_calendar_have_the_text_of_its_ends() {
        let text = |unix_ms| Timestamp { unix_ms }.to_string();
        assert_eq!(text(i64::MAX), "9999-12-30T22:00:00+00:00");
        assert_eq!(text(i64::MIN), "-9999-01-02T01:59:59+00:00");
    }

    #[test]
    fn invalid_expiry_dates_are_rejected() {
        let invalid_texts = [
            "",
            "tomorrow",
            "2030-08-27",
            "27/8/2030",
            "2/30/2030",
            "8/27/30",
            "8/27/2030 7:23 PM +02:00",
            "8/27/2030 13:00:00 PM +00:00",
            "8/27/2030 0:00:00 AM +00:00",
            "8/27/2030 7:23:57",
            "8/27/2030 24:00:00",
            "8/27/2030 19:23:57 PM",
            "8/27/2030 7:23:57 pm",
            "8/27/2030 7:23:57 PM PM",
            "8/27/2030 PM",
            "8/27/2030 19:23:57 +02:00 +02:00",
            "8/27/2030 ",
            "8/27/2030 7:23:57 PM +02:00 x",
            "2030-13-01T00:00:00Z",
            "2030-08-27T25:00:00Z",
            "2030-08-27T02:23:57[Europe/Paris]",
            "２030-08-27T02:23:57Z",
            "8/27/2030 7:23:57 PM +2:00",
        ];
        for text in invalid_texts {
            check(text, None);
        }
    }
}
