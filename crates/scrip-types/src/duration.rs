//! Durations as people write them in settings, quotas and arguments: a number and a unit.

use std::time::Duration;

/// Parses `500ms`, `90s`, `15m`, `24h` or `30d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|it: char| it.is_ascii_lowercase());
    let unit_ms = match text.strip_prefix(digits)? {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(parse_digits(digits)?.checked_mul(unit_ms)?))
}

/// As [`parse_duration`], for a number of whole seconds.
pub fn parse_seconds(text: &str) -> Option<u64> {
    parse_duration(text).filter(|it| it.subsec_nanos() == 0).map(|it| it.as_secs())
}

/// A number without a sign.
pub fn parse_digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_a_number_with_a_unit() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400)]
        {
            assert_eq!(parse_seconds(text), Some(seconds), "{text}");
        }
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_seconds("250ms"), None);
        for text in ["", "10", "m", "-1m", "+1m", "1.5h", "1\u{fc}", "1M", "99999999999999999d"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
