//! Which numbers count, and in which group.
//!
//! A group is what a masked reader sees of a number: first six and last four of a card number,
//! routing number and last four of a bank account, last four of a social security or employer id.

use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    card::{
        self,
        bank::{check_account_number, check_routing_number},
    },
    policy::{
        Caller,
        guessing_budget::{CallerClass, EvaluatedNumbers, GuessBucket, GuessBucketKind},
    },
    token::{Plaintext, TokenType},
};

/// A number by its digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedNumber {
    pub(crate) group: GuessBucket,
    pub(crate) number: [u8; 16],
}

/// A text with fewer digits is no card number.
const CARD_DIGITS_MIN: usize = 12;
const IDENTITY_DIGITS: usize = 9;
/// What people write between the digits of a number.
const SEPARATORS: &[char] =
    &[' ', '\t', '\u{a0}', '-', '.', '_', '/', ',', ':', '|', '+', '(', ')'];
/// What may be inside a run of digits. The others stand between two numbers as well.
const RUN_SEPARATORS: &[char] = &[' ', '-', '.', '_'];
const RUN_DIGITS_MIN: usize = 4;
/// Each number is a row of the store for 90 days, so a request with more of them is not counted but
/// treated as if a budget were spent.
pub(super) const NUMBERS_MAX: usize = 100;
/// The last run of a text takes all digits that are left: every run is a read of the store.
const RUNS_MAX: usize = 8;

/// What the expressions of one token gave. May hold numbers, so it is wiped when it is dropped.
#[derive(Default)]
pub(crate) struct EvaluatedTexts {
    pub(crate) fingerprint: Option<FingerprintText>,
    pub(crate) indexes: Vec<Zeroizing<String>>,
}

pub(crate) struct FingerprintText {
    pub(crate) text: Zeroizing<String>,
    /// The type's own expression gave it, so it holds nothing but the data.
    pub(crate) is_from_type_expression: bool,
}

/// The kinds of numbers. Social security and employer ids look alike and share one.
#[derive(Debug, Clone, Copy)]
enum NumberKind {
    Card,
    Bank,
    Identity,
}

impl NumberKind {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Card => b"card",
            Self::Bank => b"bank",
            Self::Identity => b"identity",
        }
    }
}

struct Collector<'a> {
    caller: &'a Caller,
    class: CallerClass,
    /// At most one more than are counted.
    numbers: Vec<CountedNumber>,
}

impl<'a> Collector<'a> {
    fn new(caller: &'a Caller) -> Self {
        Self { caller, class: CallerClass::for_caller(caller), numbers: Vec::new() }
    }

    fn add(&mut self, kind: NumberKind, group: [&str; 2], digits: &str) {
        if self.numbers.len() > NUMBERS_MAX {
            return;
        }
        let keys = &self.caller.tenant().keys;
        let [first, last] = group.map(str::as_bytes);
        let name = keys.guess_digest(&[b"group", kind.label(), first, last]);
        let number = keys.guess_digest(&[b"number", kind.label(), first, digits.as_bytes()]);
        let group = GuessBucket::new(self.class, GuessBucketKind::Group, name);
        let counted = CountedNumber { group, number: number.0 };
        if !self.numbers.contains(&counted) {
            self.numbers.push(counted);
        }
    }

    fn add_card(&mut self, digits: &str) {
        let first = digits.get(..6).unwrap_or_default();
        self.add(NumberKind::Card, [first, last_four(digits)], digits);
    }

    /// Of an account number with at most four digits nothing is shown, so nothing of it is in the
    /// group's name.
    fn add_bank_account(&mut self, routing_number: &str, account_number: &str) {
        let last = if account_number.len() > 4 { last_four(account_number) } else { "" };
        self.add(NumberKind::Bank, [routing_number, last], account_number);
    }

    fn add_identity(&mut self, digits: &str) {
        self.add(NumberKind::Identity, ["", last_four(digits)], digits);
    }

    /// All digits of a text taken together, whatever is between them.
    fn add_text(&mut self, text: &str) {
        let digits = extract_digits(text);
        if digits.len() >= CARD_DIGITS_MIN {
            self.add_card(&digits);
        }
    }

    /// A text that a fingerprint expression of a request gave. It has the fingerprint of every
    /// token whose expression gave the same text, so a number in it is a guess, wherever it came
    /// from. A text that the type's own expression could have given counts like the data behind
    /// it, so that the same guess has one budget. Texts of cards are counted by
    /// [`Collector::text`].
    fn add_fingerprint_text(&mut self, token_type: TokenType, text: &str) {
        let kind = match token_type {
            TokenType::Bank => {
                if let Some((account, routing)) = text.split_once('|')
                    && check_routing_number(routing).is_ok()
                    && check_account_number(account, 1).is_ok()
                {
                    self.add_bank_account(routing, account);
                }
                NumberKind::Bank
            }
            TokenType::UsBankAccountNumber => {
                if check_account_number(text, 1).is_ok() {
                    self.add_bank_account("", text);
                }
                NumberKind::Bank
            }
            TokenType::SocialSecurityNumber | TokenType::EmployerIdNumber => {
                let digits = extract_digits(text);
                if digits.len() == IDENTITY_DIGITS {
                    self.add_identity(&digits);
                }
                NumberKind::Identity
            }
            TokenType::Card
            | TokenType::CardNumber
            | TokenType::NetworkToken
            | TokenType::Token
            | TokenType::UsBankRoutingNumber => return,
        };
        for run in digit_runs(text) {
            self.add(kind, ["", last_four(&run)], &run);
        }
    }

    /// The same, but only where the text is digits and separators and nothing else.
    fn add_digits_only(&mut self, text: &str) -> Option<Zeroizing<String>> {
        let digits = separated_digits(text)?;
        if digits.len() >= CARD_DIGITS_MIN {
            self.add_card(&digits);
        }
        Some(digits)
    }

    /// Texts and numbers of open data that are digits and separators and nothing else.
    fn add_leaves(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => (),
            Value::Number(number) => {
                drop(self.add_digits_only(&Zeroizing::new(number.to_string())));
            }
            Value::String(text) => drop(self.add_digits_only(text)),
            Value::Array(items) => items.iter().for_each(|it| self.add_leaves(it)),
            Value::Object(members) => members.values().for_each(|it| self.add_leaves(it)),
        }
    }

    /// Any value of a request body whose type is not known.
    fn add_body(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => (),
            Value::Number(number) => self.add_untyped_text(&Zeroizing::new(number.to_string())),
            Value::String(text) => self.add_untyped_text(text),
            Value::Array(items) => items.iter().for_each(|it| self.add_body(it)),
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str);
                if let Some(account) = text("account_number") {
                    self.add_bank_account(text("routing_number").unwrap_or_default(), account);
                }
                let account_type = TokenType::UsBankAccountNumber.as_str();
                if let Some(account) = text("data").filter(|_| text("type") == Some(account_type)) {
                    self.add_bank_account("", account);
                }
                members.values().for_each(|it| self.add_body(it));
            }
        }
    }

    fn add_untyped_text(&mut self, text: &str) {
        if let Some(digits) = self.add_digits_only(text)
            && digits.len() == IDENTITY_DIGITS
        {
            self.add_identity(&digits);
        }
    }
}

/// The numbers of one token: its own, and those in the texts that its expressions gave.
pub(super) fn evaluated_numbers(
    caller: &Caller,
    evaluated: &EvaluatedNumbers<'_>,
) -> Vec<CountedNumber> {
    let EvaluatedNumbers { token_type, data, texts } = evaluated;
    let data = data.expose();
    let mut collector = Collector::new(caller);
    let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
    match token_type {
        TokenType::Card | TokenType::CardNumber | TokenType::NetworkToken => {
            collector.add_card(card::card_number(data).unwrap_or_default());
        }
        TokenType::Bank => {
            collector.add_bank_account(text("routing_number"), text("account_number"))
        }
        TokenType::UsBankAccountNumber => {
            collector.add_bank_account("", data.as_str().unwrap_or_default())
        }
        TokenType::SocialSecurityNumber | TokenType::EmployerIdNumber => {
            collector.add_identity(&extract_digits(data.as_str().unwrap_or_default()));
        }
        // A card number in an object is guessed like any other.
        TokenType::Token => collector.add_leaves(data),
        TokenType::UsBankRoutingNumber => (),
    }
    let fingerprint = texts.fingerprint.as_ref();
    for text in fingerprint.map(|it| &it.text).into_iter().chain(&texts.indexes) {
        match token_type {
            // Prose and structured data hold many digits that are no number.
            TokenType::Token => drop(collector.add_digits_only(text)),
            TokenType::Card
            | TokenType::CardNumber
            | TokenType::NetworkToken
            | TokenType::Bank
            | TokenType::UsBankAccountNumber
            | TokenType::UsBankRoutingNumber
            | TokenType::SocialSecurityNumber
            | TokenType::EmployerIdNumber => collector.add_text(text),
        }
    }
    if let Some(it) = fingerprint.filter(|it| !it.is_from_type_expression) {
        collector.add_fingerprint_text(*token_type, &it.text);
    }
    collector.numbers
}

/// The numbers of a search term.
pub(super) fn searched_numbers(caller: &Caller, term: &str) -> Vec<CountedNumber> {
    let mut collector = Collector::new(caller);
    collector.add_text(term);
    if let Some(digits) = separated_digits(term).filter(|it| it.len() == IDENTITY_DIGITS) {
        collector.add_identity(&digits);
    }
    collector.numbers
}

/// The numbers of a request body that is about to be compared with an earlier one.
pub(crate) fn compared_numbers(caller: &Caller, body: &Plaintext) -> Vec<CountedNumber> {
    let mut collector = Collector::new(caller);
    collector.add_body(body.expose());
    collector.numbers
}

/// `None` for a text that holds anything but digits and separators.
pub(super) fn separated_digits(text: &str) -> Option<Zeroizing<String>> {
    let known = |it: char| it.is_ascii_digit() || SEPARATORS.contains(&it);
    text.chars().all(known).then(|| extract_digits(text))
}

/// Only ASCII digits: the data of a type with a number holds no others, and neither does a text that
/// equals it.
fn extract_digits(text: &str) -> Zeroizing<String> {
    // A text that grows would leave copies that are not wiped.
    let mut digits = Zeroizing::new(String::with_capacity(text.len()));
    digits.extend(text.chars().filter(char::is_ascii_digit));
    digits
}

/// The numbers of a text, as far as its form tells where one ends.
fn digit_runs(text: &str) -> Vec<Zeroizing<String>> {
    let mut runs = Vec::new();
    let mut rest = text;
    while runs.len() < RUNS_MAX.saturating_sub(1) {
        let inside = |it: char| it.is_ascii_digit() || RUN_SEPARATORS.contains(&it);
        let end = rest.find(|it| !inside(it)).unwrap_or(rest.len());
        let (run, after) = rest.split_at_checked(end).unwrap_or_default();
        runs.extend(Some(extract_digits(run)).filter(|it| it.len() >= RUN_DIGITS_MIN));
        let mut after = after.chars();
        if after.next().is_none() {
            return runs;
        }
        rest = after.as_str();
    }
    runs.extend(Some(extract_digits(rest)).filter(|it| it.len() >= RUN_DIGITS_MIN));
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
        let runs = digit_runs(text);
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
        // Digits of other scripts are in no number.
        check("１２３４1234５", &["1234"]);
        check("é1234é", &["1234"]);
    }

    #[test]
    fn last_digit_run_takes_all_remaining_digits() {
        let texts: Vec<_> = (1000..1010).map(|it| it.to_string()).collect();
        let first = ["1000", "1001", "1002", "1003", "1004", "1005", "1006", "100710081009"];
        check(&texts.join("|"), &first);
        check(
            &texts[..8].join("|"),
            &["1000", "1001", "1002", "1003", "1004", "1005", "1006", "1007"],
        );
    }
}
