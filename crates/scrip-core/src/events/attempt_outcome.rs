//! The outcome of one attempt to deliver an event.

use std::time::Duration;

use jiff::fmt::rfc2822;

use crate::{Timestamp, events::delivery_schedule::RETRY_AFTER_MAX};

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The receiver took the event.
    Delivered,
    /// The receiver asks for no further events: the webhook is disabled.
    Gone,
    /// Another attempt follows, not earlier than the receiver asked for.
    Failed { retry_after: Option<Duration> },
    /// The vault was busy and sent nothing. This does not count as an attempt.
    Postponed,
}

/// A longer text is no `Retry-After`.
const RETRY_AFTER_CHARS_MAX: usize = 64;
const STATUS_GONE: u16 = 410;

impl AttemptOutcome {
    /// Classifies an answer by its status. A redirect is a failure: the receiver is the URL that the
    /// webhook names, and no other.
    pub fn classify_answer(status: u16, retry_after: Option<&str>, now: Timestamp) -> Self {
        match status {
            200..=299 => Self::Delivered,
            STATUS_GONE => Self::Gone,
            _ => {
                Self::Failed { retry_after: retry_after.and_then(|it| parse_retry_after(it, now)) }
            }
        }
    }
}

/// Parses the value of `Retry-After`: a number of seconds or an HTTP date. Values above a day are a
/// day, dates in the past are zero. `None` for any other text.
pub(crate) fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if text.is_empty() || text.len() > RETRY_AFTER_CHARS_MAX {
        return None;
    }
    if text.bytes().all(|it| it.is_ascii_digit()) {
        // A number that is too large for the type is also above the maximum.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let date = rfc2822::parse(text).ok()?;
    let ms = date.timestamp().as_millisecond().saturating_sub(now.unix_ms);
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2023-11-14T22:13:20Z.
    const NOW: Timestamp = Timestamp { unix_ms: 1_700_000_000_000 };

    #[test]
    fn answers_are_classified_by_status() {
        let failed = AttemptOutcome::Failed { retry_after: None };
        let cases = [
            (100, failed),
            (199, failed),
            (200, AttemptOutcome::Delivered),
            (204, AttemptOutcome::Delivered),
            (299, AttemptOutcome::Delivered),
            (300, failed),
            (302, failed),
            (308, failed),
            (400, failed),
            (404, failed),
            (409, failed),
            (410, AttemptOutcome::Gone),
            (429, failed),
            (500, failed),
            (503, failed),
            (999, failed),
        ];
        for (status, expected) in cases {
            assert_eq!(AttemptOutcome::classify_answer(status, None, NOW), expected, "{status}");
        }
    }

    #[test]
    fn only_failures_have_a_retry_after() {
        let classify_answer = |status| AttemptOutcome::classify_answer(status, Some("30"), NOW);
        let failed = AttemptOutcome::Failed { retry_after: Some(Duration::from_secs(30)) };
        assert_eq!([classify_answer(429), classify_answer(503), classify_answer(302)], [failed; 3]);
        assert_eq!(classify_answer(200), AttemptOutcome::Delivered);
        assert_eq!(classify_answer(410), AttemptOutcome::Gone);
    }

    #[test]
    fn retry_after_is_seconds_or_an_http_date() {
        let day = 24 * 60 * 60;
        let cases = [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 120 ", Some(120)),
            ("86401", Some(day)),
            ("99999999999999999999999", Some(day)),
            ("Tue, 14 Nov 2023 22:14:20 GMT", Some(60)),
            ("Tue, 14 Nov 2023 22:13:20 GMT", Some(0)),
            ("Tue, 14 Nov 2023 21:00:00 GMT", Some(0)),
            ("Thu, 01 Jan 2099 00:00:00 GMT", Some(day)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("soon", None),
            ("2023-11-14T22:14:20Z", None),
            ("Tue, 31 Feb 2023 22:14:20 GMT", None),
        ];
        for (text, expected) in cases {
            let actual = parse_retry_after(text, NOW);
            assert_eq!(actual, expected.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(parse_retry_after(&"1".repeat(65), NOW), None);
    }

    proptest! {
        #[test]
        fn parsing_any_retry_after_never_panics(text: String, unix_ms: i64) {
            let parsed = parse_retry_after(&text, Timestamp { unix_ms });
            prop_assert!(parsed.is_none_or(|it| it <= RETRY_AFTER_MAX));
        }
    }
}
