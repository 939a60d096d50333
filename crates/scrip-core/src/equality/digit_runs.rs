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

impl RunSeparators {
    fn contains(self, character: char) -> bool {
        match self {
            Self::WithinNumber => is_number_separator(character),
            Self::All => !character.is_alphanumeric() && character != '"',
        }
    }
}

fn is_number_separator(character: char) -> bool {
    matches!(
        character,
        '-' | '.' | '_' | '/' | '\u{ad}' | '\u{b7}' | '\u{200b}'..='\u{200f}' | '\u{2010}'..='\u{2015}'
            | '\u{2022}' | '\u{2027}' | '\u{2060}'..='\u{2064}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}'
            | '\u{feff}' | '\u{ff0d}'
    ) || character.is_whitespace()
}

/// Calls `visit` with the digits of each run that has at least [`RUN_DIGITS_MIN`] of them. Digits of
/// other scripts count with their value. A number with an exponent counts with its decimal value.
pub(super) fn visit_digit_runs(text: &str, separators: RunSeparators, visit: &mut dyn FnMut(&str)) {
    if !may_have_run(text) {
        return;
    }
    // A string that grows would leave copies that are not wiped.
    let capacity = text.len().saturating_add(EXPONENT_ZEROS_MAX);
    let mut run = Zeroizing::new(String::with_capacity(capacity));
    let mut visit_run = |run: &str| {
        if run.len() >= RUN_DIGITS_MIN {
            visit(run);
        }
    };
    // The digits of the run after its last point.
    let mut fraction_digits = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if let Some(digit) = ascii_digit(character) {
            run.push(digit);
            fraction_digits = fraction_digits.map(|it: usize| it.saturating_add(1));
            continue;
        }
        if run.is_empty() {
            continue;
        }
        // The escape of a control character in the text of an object, or of an object in an object.
        match characters.clone().next().filter(|_| character == '\\') {
            Some('b' | 'f' | 'n' | 'r' | 't') => {
                characters.next();
                continue;
            }
            Some('\\') => continue,
            Some(_) | None => (),
        }
        if separators.contains(character) {
            if character == '.' {
                fraction_digits = Some(0);
            }
            continue;
        }
        visit_run(&run);
        let zeros = exponent_zeros(character, characters.as_str(), fraction_digits.unwrap_or(0));
        if let Some(zeros) = zeros {
            run.extend(std::iter::repeat_n('0', zeros));
            visit_run(&run);
        }
        run.clear();
        fraction_digits = None;
    }
    visit_run(&run);
}

/// A cheap check, because most texts have few digits.
fn may_have_run(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let has_exponent = || {
        let mut pairs = text.as_bytes().windows(2);
        pairs.any(|it| matches!(it, [digit, b'e' | b'E'] if digit.is_ascii_digit()))
    };
    digits >= RUN_DIGITS_MIN || !text.is_ascii() || (digits > 0 && has_exponent())
}

/// The zeros behind the digits of a number in scientific notation, such as `4.2e15`.
fn exponent_zeros(character: char, after: &str, fraction_digits: usize) -> Option<usize> {
    let exponent = after.strip_prefix('+').unwrap_or(after);
    let end = exponent.find(|it: char| !it.is_ascii_digit()).unwrap_or(exponent.len());
    let exponent: usize = exponent.get(..end)?.parse().ok()?;
    let zeros = exponent.checked_sub(fraction_digits)?;
    (matches!(character, 'e' | 'E') && (1..=EXPONENT_ZEROS_MAX).contains(&zeros)).then_some(zeros)
}

/// The digit zero of each script with decimal digits.
const ZEROS: [char; 41] = [
    '\u{660}',
    '\u{6f0}',
    '\u{7c0}',
    '\u{966}',
    '\u{9e6}',
    '\u{a66}',
    '\u{ae6}',
    '\u{b66}',
    '\u{be6}',
    '\u{c66}',
    '\u{ce6}',
    '\u{d66}',
    '\u{de6}',
    '\u{e50}',
    '\u{ed0}',
    '\u{f20}',
    '\u{1040}',
    '\u{1090}',
    '\u{17e0}',
    '\u{1810}',
    '\u{1946}',
    '\u{19d0}',
    '\u{1a80}',
    '\u{1a90}',
    '\u{1b50}',
    '\u{1bb0}',
    '\u{1c40}',
    '\u{1c50}',
    '\u{a620}',
    '\u{a8d0}',
    '\u{a900}',
    '\u{a9d0}',
    '\u{a9f0}',
    '\u{aa50}',
    '\u{abf0}',
    '\u{ff10}',
    '\u{1d7ce}',
    '\u{1d7d8}',
    '\u{1d7e2}',
    '\u{1d7ec}',
    '\u{1d7f6}',
];

fn ascii_digit(character: char) -> Option<char> {
    if character.is_ascii() {
        return character.is_ascii_digit().then_some(character);
    }
    let code = u32::from(character);
    let value =
        ZEROS.iter().find_map(|zero| code.checked_sub(u32::from(*zero)).filter(|it| *it < 10))?;
    char::from_digit(value, 10)
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
        visit_digit_runs(text, separators, &mut |it| runs.push(it.to_owned()));
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
