//! The digits of texts that consist of digits and separators, and the short runs of digits in other
//! texts: account numbers, social security numbers and employer ids.

use zeroize::Zeroizing;

/// Characters between the digits of a number.
const SEPARATORS: &[char] =
    &[' ', '\t', '\u{a0}', '-', '.', '_', '/', ',', ':', '|', '+', '(', ')'];
/// Characters allowed within a run of digits. The other separators also occur between two numbers.
const RUN_SEPARATORS: &[char] = &[' ', '-', '.', '_'];
const SHORT_RUN_DIGITS_MIN: usize = 4;
/// The maximum number of runs in a text, because every run costs a read of the store. The last run
/// takes all remaining digits.
const RUNS_MAX: usize = 8;

/// The digits of a text; `None` if the text has other characters than digits and separators.
pub(super) fn separated_digits(text: &str) -> Option<Zeroizing<String>> {
    let is_digit_or_separator = |it: char| it.is_ascii_digit() || SEPARATORS.contains(&it);
    text.chars().all(is_digit_or_separator).then(|| extract_digits(text))
}

/// Removes all characters except ASCII digits. The number of a token has only ASCII digits, and so
/// has every text that equals it.
pub(super) fn extract_digits(text: &str) -> Zeroizing<String> {
    // A string that grows would leave copies that are not wiped.
    let mut digits = Zeroizing::new(String::with_capacity(text.len()));
    digits.extend(text.chars().filter(char::is_ascii_digit));
    digits
}

/// Splits a text into runs of digits. A run ends at a character that is neither a digit nor one of
/// [`RUN_SEPARATORS`]. Runs with fewer than [`SHORT_RUN_DIGITS_MIN`] digits are omitted.
pub(super) fn split_digit_runs(text: &str) -> Vec<Zeroizing<String>> {
    let mut runs = Vec::new();
    let mut remaining = text;
    while runs.len() < RUNS_MAX.saturating_sub(1) {
        let is_in_run = |it: char| it.is_ascii_digit() || RUN_SEPARATORS.contains(&it);
        let run_end = remaining.find(|it| !is_in_run(it)).unwrap_or(remaining.len());
        let (run, after_run) = remaining.split_at_checked(run_end).unwrap_or_default();
        runs.extend(Some(extract_digits(run)).filter(|it| it.len() >= SHORT_RUN_DIGITS_MIN));
        let mut characters = after_run.chars();
        if characters.next().is_none() {
            return runs;
        }
        remaining = characters.as_str();
    }
    runs.extend(Some(extract_digits(remaining)).filter(|it| it.len() >= SHORT_RUN_DIGITS_MIN));
    runs
}

pub(super) fn last_four(digits: &str) -> &str {
    digits.get(digits.len().saturating_sub(4)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let runs = split_digit_runs(text);
        assert_eq!(runs.iter().map(|it| it.as_str()).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn digit_runs_end_at_characters_that_do_not_separate_digits() {
        check("", &[]);
        check("123", &[]);
        check("1234", &["1234"]);
        check("123-45-6789", &["123456789"]);
        check(" 123 . 45_6789-", &["123456789"]);
        check("1000007788|021000021", &["1000007788", "021000021"]);
        check("ssn:123-45-6789/2026x99", &["123456789", "2026"]);
        // Digits of other scripts do not belong to a number.
        check("１２３４1234５", &["1234"]);
        check("é1234é", &["1234"]);
    }

    #[test]
    fn last_digit_run_takes_all_remaining_digits() {
        let texts: Vec<_> = (1000..1010).map(|it| it.to_string()).collect();
        let expected = ["1000", "1001", "1002", "1003", "1004", "1005", "1006", "100710081009"];
        check(&texts.join("|"), &expected);
        check(
            &texts[..8].join("|"),
            &["1000", "1001", "1002", "1003", "1004", "1005", "1006", "1007"],
        );
    }
}
