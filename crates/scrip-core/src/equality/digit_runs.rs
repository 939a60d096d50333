//! Runs of digits in a text, and the parts of a run that can be a card number.
//!
//! Texts are compared as a whole, so a number is a guess wherever it stands in a text: in a member of
//! an object, in the text of an object, or behind other digits.

use zeroize::Zeroizing;

/// A run with fewer digits is not a card number.
pub(super) const RUN_DIGITS_MIN: usize = 12;
/// The longest card number.
const PART_DIGITS_MAX: usize = 19;
/// Zeros that the exponent of a number may add.
const EXPONENT_ZEROS_MAX: usize = 40;

/// The characters that may be between two digits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunSeparators {
    /// Spaces, hyphens and other characters with which people group the digits of one number.
    WithinNumber,
    /// Everything except letters and quotation marks: also characters that separate two numbers.
    All,
}

/// What a character that is no digit does to the runs before it.
#[derive(Clone, Copy)]
pub(super) enum SeparatorKind {
    /// Is dropped from runs of both kinds.
    Number,
    /// Ends a run within a number, and is dropped from the other one.
    Other,
    /// Ends runs of both kinds.
    RunEnd,
}

pub(super) fn separator_kind(character: char) -> SeparatorKind {
    match character {
        '-' | '.' | '_' | '/' | ' ' | '\t'..='\r' => SeparatorKind::Number,
        '"' => SeparatorKind::RunEnd,
        _ if character.is_ascii_alphanumeric() => SeparatorKind::RunEnd,
        _ if character.is_ascii() => SeparatorKind::Other,
        _ if is_other_number_separator(character) => SeparatorKind::Number,
        _ if character.is_alphanumeric() => SeparatorKind::RunEnd,
        _ => SeparatorKind::Other,
    }
}

/// Whether people group the digits of a number with this character outside of ASCII.
fn is_other_number_separator(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{b7}' | '\u{200b}'..='\u{200f}' | '\u{2010}'..='\u{2015}' | '\u{2022}'
            | '\u{2027}' | '\u{2060}'..='\u{2064}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}'
            | '\u{feff}' | '\u{ff0d}'
    ) || character.is_whitespace()
}

/// Gets each run. Returns whether it wants more runs.
type VisitRun<'a> = dyn FnMut(RunSeparators, &str) -> bool + 'a;

/// The runs of both kinds before the current character. The digits of the run within a number are the
/// last digits of the other run, so one pass over a text finds both.
struct CurrentRuns {
    digits_min: usize,
    digits: Zeroizing<String>,
    /// Where the run within a number begins.
    number_start: usize,
    /// The number of digits before the last point.
    point: Option<usize>,
}

impl CurrentRuns {
    /// Visits the runs that end here, unless both are the same.
    fn visit_all(&mut self, exponent: Option<Exponent<'_>>, visit: &mut VisitRun<'_>) -> bool {
        let is_one_run = self.number_start == 0;
        self.visit(self.number_start, RunSeparators::WithinNumber, exponent, visit)
            && (is_one_run || self.visit(0, RunSeparators::All, exponent, visit))
    }

    /// Visits the run that begins at `start`, and its decimal value if it has an exponent.
    fn visit(
        &mut self,
        start: usize,
        separators: RunSeparators,
        exponent: Option<Exponent<'_>>,
        visit: &mut VisitRun<'_>,
    ) -> bool {
        let length = self.digits.len();
        if length == start {
            return true;
        }
        let mut visit_digits = |digits: &str| {
            let run = digits.get(start..).unwrap_or_default();
            run.len() < self.digits_min || visit(separators, run)
        };
        if !visit_digits(&self.digits) {
            return false;
        }
        let point = self.point.filter(|it| *it > start);
        let fraction_digits = point.map_or(0, |it| length.saturating_sub(it));
        let Some(zeros) = exponent.and_then(|it| it.zeros(fraction_digits)) else { return true };
        self.digits.extend(std::iter::repeat_n('0', zeros));
        let wants_more = visit_digits(&self.digits);
        self.digits.truncate(length);
        wants_more
    }

    fn clear(&mut self) {
        self.digits.clear();
        self.number_start = 0;
        self.point = None;
    }
}

/// Calls `visit` with the digits of each run of both kinds that has at least `digits_min` of them,
/// until `visit` returns `false`. Digits of other scripts count with their value. A number with an
/// exponent counts with its decimal value.
pub(super) fn visit_digit_runs(text: &str, digits_min: usize, visit: &mut VisitRun<'_>) {
    if !may_have_run(text, digits_min) {
        return;
    }
    // A string that grows would leave copies that are not wiped.
    let capacity = text.len().saturating_add(EXPONENT_ZEROS_MAX);
    let digits = Zeroizing::new(String::with_capacity(capacity));
    let mut runs = CurrentRuns { digits_min, digits, number_start: 0, point: None };
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if let Some(digit) = ascii_digit(character) {
            runs.digits.push(digit);
            continue;
        }
        if runs.digits.is_empty() || (character == '\\' && skip_escape(&mut characters)) {
            continue;
        }
        let wants_more = match separator_kind(character) {
            SeparatorKind::Number => {
                if character == '.' {
                    runs.point = Some(runs.digits.len());
                }
                true
            }
            SeparatorKind::Other => {
                let start = runs.number_start;
                runs.number_start = runs.digits.len();
                runs.visit(start, RunSeparators::WithinNumber, None, visit)
            }
            SeparatorKind::RunEnd => {
                let exponent = Exponent { character, after: characters.as_str() };
                let wants_more = runs.visit_all(Some(exponent), visit);
                runs.clear();
                wants_more
            }
        };
        if !wants_more {
            return;
        }
    }
    runs.visit_all(None, visit);
}

/// Skips the escape of a control character in the text of an object, or of an object in an object.
/// Returns whether the backslash is a part of one.
pub(super) fn skip_escape(characters: &mut std::str::Chars<'_>) -> bool {
    match characters.clone().next() {
        Some('b' | 'f' | 'n' | 'r' | 't') => characters.next().is_some(),
        Some('\\') => true,
        Some(_) | None => false,
    }
}

/// A cheap check, because most texts have few digits.
fn may_have_run(text: &str, digits_min: usize) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= digits_min || !text.is_ascii() || (digits > 0 && has_exponent(text))
}

/// Whether a digit is in front of a character that may begin an exponent.
pub(super) fn has_exponent(text: &str) -> bool {
    let mut pairs = text.as_bytes().windows(2);
    pairs.any(|it| matches!(it, [digit, b'e' | b'E'] if digit.is_ascii_digit()))
}

/// A character behind the digits of a number, which may begin an exponent, such as in `4.2e15`.
#[derive(Clone, Copy)]
struct Exponent<'a> {
    character: char,
    after: &'a str,
}

impl Exponent<'_> {
    /// The zeros that the exponent adds to the digits.
    fn zeros(self, fraction_digits: usize) -> Option<usize> {
        if !matches!(self.character, 'e' | 'E') {
            return None;
        }
        let exponent = self.after.strip_prefix('+').unwrap_or(self.after);
        let end = exponent.find(|it: char| !it.is_ascii_digit()).unwrap_or(exponent.len());
        let exponent: usize = exponent.get(..end)?.parse().ok()?;
        let zeros = exponent.checked_sub(fraction_digits)?;
        (1..=EXPONENT_ZEROS_MAX).contains(&zeros).then_some(zeros)
    }
}

/// The digit zero of each script with decimal digits, in ascending order.
#[rustfmt::skip]
const ZEROS: [char; 75] = [
    '\u{660}', '\u{6f0}', '\u{7c0}', '\u{966}', '\u{9e6}', '\u{a66}', '\u{ae6}', '\u{b66}',
    '\u{be6}', '\u{c66}', '\u{ce6}', '\u{d66}', '\u{de6}', '\u{e50}', '\u{ed0}', '\u{f20}',
    '\u{1040}', '\u{1090}', '\u{17e0}', '\u{1810}', '\u{1946}', '\u{19d0}', '\u{1a80}', '\u{1a90}',
    '\u{1b50}', '\u{1bb0}', '\u{1c40}', '\u{1c50}', '\u{a620}', '\u{a8d0}', '\u{a900}', '\u{a9d0}',
    '\u{a9f0}', '\u{aa50}', '\u{abf0}', '\u{ff10}', '\u{104a0}', '\u{10d30}', '\u{10d40}',
    '\u{11066}', '\u{110f0}', '\u{11136}', '\u{111d0}', '\u{112f0}', '\u{11450}', '\u{114d0}',
    '\u{11650}', '\u{116c0}', '\u{116d0}', '\u{116da}', '\u{11730}', '\u{118e0}', '\u{11950}',
    '\u{11bf0}', '\u{11c50}', '\u{11d50}', '\u{11da0}', '\u{11de0}', '\u{11f50}', '\u{16130}',
    '\u{16a60}', '\u{16ac0}', '\u{16b50}', '\u{16d70}', '\u{1ccf0}', '\u{1d7ce}', '\u{1d7d8}',
    '\u{1d7e2}', '\u{1d7ec}', '\u{1d7f6}', '\u{1e140}', '\u{1e2f0}', '\u{1e4f0}', '\u{1e950}',
    '\u{1fbf0}',
];

pub(super) fn ascii_digit(character: char) -> Option<char> {
    if character.is_ascii() {
        return character.is_ascii_digit().then_some(character);
    }
    let after = ZEROS.partition_point(|zero| *zero <= character);
    let zero = ZEROS.get(after.checked_sub(1)?)?;
    char::from_digit(u32::from(character).checked_sub(u32::from(*zero))?, 10)
}

/// Calls `visit` with every part of a run that is shorter than the run, as long as a card number, and
/// has a valid checksum. Ends when `visit` returns `false`.
pub(super) fn visit_card_parts(run: &str, visit: &mut dyn FnMut(&str) -> bool) {
    for end in RUN_DIGITS_MIN..=run.len() {
        let Some(head) = run.get(..end) else { return };
        let mut sum = 0_u32;
        for (index, digit) in head.bytes().rev().take(PART_DIGITS_MAX).enumerate() {
            let digit = u32::from(digit.wrapping_sub(b'0'));
            let doubled = digit.saturating_mul(2);
            let weight = if index % 2 == 0 { digit } else { doubled / 10 + doubled % 10 };
            sum = sum.saturating_add(weight);
            let length = index.saturating_add(1);
            if length < RUN_DIGITS_MIN || length == run.len() || !sum.is_multiple_of(10) {
                continue;
            }
            let part = end.checked_sub(length).and_then(|start| head.get(start..));
            if part.is_some_and(|it| !visit(it)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_runs(text: &str, separators: RunSeparators, expected: &[&str]) {
        let mut runs = Vec::new();
        visit_digit_runs(text, RUN_DIGITS_MIN, &mut |it, run| {
            // Runs of both kinds that are the same are visited once.
            if it == separators {
                runs.push(run.to_owned());
            }
            true
        });
        assert_eq!(runs, expected, "runs of {text:?}");
    }

    #[test]
    fn digit_runs_are_found_behind_separators_escapes_and_exponents() {
        use RunSeparators::{All, WithinNumber};
        let number = "4242424242424242";
        let texts = [
            r#"{"n":"4242424242424242"}"#,
            r#"{\"n\":\"4242424242424242\"}"#,
            "x4242 4242\u{a0}4242-4242y",
            "4242\u{200b}4242\u{2013}4242/4242",
            "order 7: 4242.4242_4242\t4242",
            r#"{"n":"4242\t4242\n4242\\r4242"}"#,
            r#"{"n":4.242424242424242E15}"#,
            "4.242424242424242e+15",
            "４２４２٤٢٤٢4242𝟜𝟚𝟜𝟚",
        ];
        for text in texts {
            check_runs(text, WithinNumber, &[number]);
        }
        check_runs("4.242e15", WithinNumber, &["4242000000000000"]);
        check_runs("4242e12 4.2e1", WithinNumber, &["4242000000000000"]);
        check_runs("1e400, 1e-12", WithinNumber, &[]);
        check_runs("7,4242424242424242|8", WithinNumber, &[number]);
        check_runs("4242,4242|4242:4242", WithinNumber, &[]);
        check_runs(r#"["4242,4242|4242:4242","4242(4242)4242+4242"]"#, All, &[number, number]);
        check_runs("42424242424 x 4242", All, &[]);
    }

    #[test]
    fn both_kinds_of_runs_are_found_in_one_pass_with_their_points_and_exponents() {
        use RunSeparators::{All, WithinNumber};
        let text = "1.5,42424242.42e6";
        check_runs(text, WithinNumber, &["42424242420000"]);
        check_runs(text, All, &["154242424242", "1542424242420000"]);
        check_runs("1.5,42424242e6", WithinNumber, &["42424242000000"]);
        check_runs("42424242,.4242e8", WithinNumber, &["424200000000"]);
        check_runs("424242424242,1|2", WithinNumber, &["424242424242"]);
        check_runs("424242424242,1|2", All, &["42424242424212"]);
        check_runs(r"4242,\n42424242\\t", All, &["424242424242"]);
        let mut visited = 0;
        visit_digit_runs("424242424242,424242424242", RUN_DIGITS_MIN, &mut |_, _| {
            visited += 1;
            false
        });
        assert_eq!(visited, 1);
    }

    #[test]
    fn card_parts_are_found_at_every_position_of_a_longer_run() {
        let parts_of = |run: &str| {
            let mut parts = Vec::new();
            visit_card_parts(run, &mut |it| {
                parts.push(it.to_owned());
                true
            });
            parts
        };
        let number = "4242424242424242".to_owned();
        for run in ["74242424242424242", "42424242424242427", "1234242424242424242999"] {
            assert!(parts_of(run).contains(&number), "parts of {run}");
        }
        assert!(!parts_of(&number).contains(&number), "a run is not a part of itself");
        assert!(parts_of("123456789012").is_empty());
        let mut calls = 0;
        visit_card_parts(&"0".repeat(400), &mut |_| {
            calls += 1;
            calls < 5
        });
        assert_eq!(calls, 5);
    }
}
