//! Numbers with nine digits in a text, such as social security numbers.

use zeroize::Zeroizing;

use crate::equality::digit_runs::{SeparatorKind, ascii_digit, separator_kind, skip_escape};

pub(super) const IDENTITY_DIGITS: usize = 9;

/// Neighbouring groups of digits, as in `420-51-4455 1980-01-02`.
struct DigitGroups {
    digits: Zeroizing<String>,
    /// Where each group begins.
    starts: Vec<usize>,
    is_in_group: bool,
}

impl DigitGroups {
    fn push(&mut self, digit: char) {
        if !self.is_in_group {
            self.starts.push(self.digits.len());
        }
        self.is_in_group = true;
        self.digits.push(digit);
    }

    /// Visits the groups that have nine digits together. Returns whether more numbers are wanted.
    fn visit(&mut self, visit: &mut dyn FnMut(&str) -> bool) -> bool {
        let is_start =
            |it: usize| it == self.digits.len() || self.starts.binary_search(&it).is_ok();
        let wants_more = self.starts.iter().all(|start| {
            let end = start.saturating_add(IDENTITY_DIGITS);
            let number = self.digits.get(*start..end).filter(|_| is_start(end));
            number.is_none_or(&mut *visit)
        });
        self.digits.clear();
        self.starts.clear();
        self.is_in_group = false;
        wants_more
    }
}

/// Calls `visit` with each number of nine digits, until `visit` returns `false`. The digits of a number may
/// be in several groups, and other groups may be next to them: a guess is the whole text, so what is
/// next to the number makes no new group of guesses.
///
/// Nine digits in the middle of more digits are not visited: card numbers and times in milliseconds
/// would count.
pub(super) fn visit_identity_numbers(text: &str, visit: &mut dyn FnMut(&str) -> bool) {
    if text.is_ascii() && text.bytes().filter(u8::is_ascii_digit).count() < IDENTITY_DIGITS {
        return;
    }
    // A string that grows would leave copies that are not wiped.
    let digits = Zeroizing::new(String::with_capacity(text.len()));
    let mut groups = DigitGroups { digits, starts: Vec::new(), is_in_group: false };
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if let Some(digit) = ascii_digit(character) {
            groups.push(digit);
            continue;
        }
        groups.is_in_group = false;
        if groups.digits.is_empty() || (character == '\\' && skip_escape(&mut characters)) {
            continue;
        }
        let ends_number = match separator_kind(character) {
            SeparatorKind::Number => false,
            SeparatorKind::Other | SeparatorKind::RunEnd => true,
        };
        if ends_number && !groups.visit(visit) {
            return;
        }
    }
    groups.visit(visit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut numbers = Vec::new();
        visit_identity_numbers(text, &mut |it| {
            numbers.push(it.to_owned());
            true
        });
        assert_eq!(numbers, expected, "{text:?}");
    }

    #[test]
    fn number_with_nine_digits_is_found_next_to_other_groups_of_digits() {
        for text in [
            "420514455",
            "420-51-4455",
            "SSN: 420-51-4455. 2 dependents",
            "420514455 / 4 Main St",
            "420514455 1980-01-02",
            "Jo\t420514455\t1980-01-02",
            r#"{"note":"420514455\n2 children"}"#,
            "7 420514455",
            "+1 420 514 455",
            "420514455/01",
            "420514455.0",
            "420\u{2011}51\u{2011}4455",
        ] {
            check(text, &["420514455"]);
        }
        check("1 420514455 2, 42-0514456", &["420514455", "420514456"]);
    }

    #[test]
    fn card_numbers_dates_and_phone_numbers_have_no_number_with_nine_digits() {
        for text in [
            "4242424242424242",
            "4242 4242 4242 4242",
            "1763592000123",
            "2026-11-19 22:57:01",
            "+1 420-555-1234",
            "12345678",
            "1234,56789",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn search_for_numbers_stops_when_no_more_are_wanted() {
        let mut count = 0;
        visit_identity_numbers("420514455 420514456, 420514457", &mut |_| {
            count += 1;
            false
        });
        assert_eq!(count, 1);
    }
}
