//! Finds the numbers to count, and the group of each number.
//!
//! A group is the part of a number that a masked read shows: first six and last four digits of a
//! card number, routing number and last four digits of a bank account, last four digits of a social
//! security number or employer id.

use serde_json::Value;
use zeroize::Zeroizing;

use crate::{
    card::{
        self, TokenType,
        bank::{check_account_number, check_routing_number},
    },
    equality::{
        CallerClass, GuessBucket, GuessBucketKind,
        digit_runs::{
            RUN_DIGITS_MIN, RunSeparators, has_exponent, visit_card_parts, visit_digit_runs,
        },
        evaluated_numbers::{EvaluatedNumbers, EvaluatedTexts, FingerprintText},
        identity_numbers::{IDENTITY_DIGITS, visit_identity_numbers},
        separated_digits::{extract_digits, last_four, separated_digits, split_digit_runs},
        sorted_texts::SortedTexts,
    },
    policy::Caller,
    types::{DisclosureRule, DisclosureRules, Plaintext},
};

/// The digests of a counted number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedNumber {
    /// The bucket of its group.
    pub(crate) bucket: GuessBucket,
    pub(crate) number_digest: [u8; 16],
    /// Whether it spends the budget of the application.
    pub(crate) spends_application: bool,
}

/// The maximum number of counted numbers of a request, because each one is stored for 90 days. A
/// token with more numbers has no fingerprint.
const NUMBERS_MAX: usize = 100;
/// The maximum for a browser. All visitors of a shop share one budget, and a request with many numbers
/// would use up much of it.
const BROWSER_NUMBERS_MAX: usize = 20;
/// Tokens of one request share the maximum evenly, whatever their data: the numbers of a token that
/// the caller may not read must not decide about another token. A long account number has about five.
const TOKEN_NUMBERS_MIN: usize = 10;
/// A longer run has more parts than [`NUMBERS_MAX`], unless its digits repeat, so it is refused.
const LONG_RUN_DIGITS_MAX: usize = 400;
/// A run whose digits are separated by any characters has no counted parts if it is longer: it
/// consists of several numbers.
const SEPARATED_RUN_DIGITS_MAX: usize = 32;

/// The numbers of one value.
#[derive(Debug)]
pub(super) struct CollectedNumbers {
    /// The numbers to count, in the order in which the value has them.
    pub(super) numbers: Vec<CountedNumber>,
    /// Whether the value has more numbers than a request may have. It must not be compared, but the first
    /// numbers count: otherwise a caller could test without a cost how many numbers a value has.
    pub(super) has_too_many: bool,
}

/// The kinds of numbers. Social security numbers and employer ids look alike and share a kind.
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

/// Collects the distinct numbers of one request.
struct Collector<'a> {
    caller: &'a Caller,
    class: CallerClass,
    counts_every_run: bool,
    numbers: Vec<CountedNumber>,
    /// The card numbers among the numbers, so that a repeated number costs no digest.
    card_numbers: SortedTexts,
    /// The same for numbers with nine digits.
    identity_numbers: SortedTexts,
    /// The runs whose parts were added.
    parted_runs: SortedTexts,
    /// Whether the current number is in a text that may have any content.
    is_in_free_text: bool,
    numbers_max: usize,
    has_too_many: bool,
}

impl<'a> Collector<'a> {
    fn new(caller: &'a Caller, rules: DisclosureRules, numbers_max: usize) -> Self {
        Self {
            caller,
            class: CallerClass::for_caller(caller),
            numbers_max,
            counts_every_run: rules.applies(DisclosureRule::EveryDigitRunCounts),
            numbers: Vec::new(),
            card_numbers: SortedTexts::default(),
            identity_numbers: SortedTexts::default(),
            parted_runs: SortedTexts::default(),
            is_in_free_text: false,
            has_too_many: false,
        }
    }

    /// The numbers. A refused request spends no more of a budget than an accepted one may.
    fn finish(mut self) -> CollectedNumbers {
        if self.has_too_many {
            self.numbers.truncate(request_numbers_max(self.class).min(self.numbers_max));
        }
        CollectedNumbers { numbers: self.numbers, has_too_many: self.has_too_many }
    }

    fn add(&mut self, kind: NumberKind, group_parts: [&str; 2], digits: &str) {
        if self.has_too_many {
            return;
        }
        let keys = &self.caller.tenant().keys;
        let [first, last] = group_parts.map(str::as_bytes);
        let group_digest = keys.guess_digest(&[b"group", kind.label(), first, last]);
        // A number that did not spend the budget of the application is no repetition of one that does.
        let number_label: &[u8] = if self.is_in_free_text { b"number in text" } else { b"number" };
        let digest = keys.guess_digest(&[number_label, kind.label(), first, digits.as_bytes()]);
        let bucket = GuessBucket::new(self.class, GuessBucketKind::Group, group_digest);
        let number_digest = digest.0;
        let spends_application = !self.is_in_free_text;
        let number = CountedNumber { bucket, number_digest, spends_application };
        if self.numbers.contains(&number) {
            return;
        }
        if self.numbers.len() < self.numbers_max {
            self.numbers.push(number);
        } else {
            self.has_too_many = true;
        }
    }

    fn add_card(&mut self, digits: &str) {
        if self.has_too_many || !self.card_numbers.insert(digits) {
            return;
        }
        let bin = digits.get(..6).unwrap_or_default();
        self.add(NumberKind::Card, [bin, last_four(digits)], digits);
    }

    /// The mask of an account number with at most four digits shows no digits, so its group
    /// contains none.
    fn add_bank_account(&mut self, routing_number: &str, account_number: &str) {
        let last = if account_number.len() > 4 { last_four(account_number) } else { "" };
        self.add(NumberKind::Bank, [routing_number, last], account_number);
    }

    fn add_identity(&mut self, digits: &str) {
        if self.has_too_many || !self.identity_numbers.insert(digits) {
            return;
        }
        self.add(NumberKind::Identity, ["", last_four(digits)], digits);
    }

    /// Adds all digits of a text as one card number, whatever characters are between them.
    fn add_text(&mut self, text: &str) {
        let digits = extract_digits(text);
        if digits.len() >= RUN_DIGITS_MIN {
            self.add_card(&digits);
        }
    }

    /// Adds every run of digits in a text, and the parts of a run that can be card numbers. With
    /// other digits before or behind it, the same number would otherwise be in a new group.
    fn add_runs(&mut self, text: &str) {
        if !self.counts_every_run {
            return;
        }
        if self.has_too_many {
            return;
        }
        visit_digit_runs(text, RUN_DIGITS_MIN, &mut |separators, run| {
            self.add_run(separators, run);
            !self.has_too_many
        });
    }

    fn add_run(&mut self, separators: RunSeparators, run: &str) {
        if self.parted_runs.contains(run) {
            return;
        }
        self.add_card(run);
        let parts_max = match separators {
            RunSeparators::WithinNumber => LONG_RUN_DIGITS_MAX,
            RunSeparators::All => SEPARATED_RUN_DIGITS_MAX,
        };
        let is_long = run.len() > parts_max;
        if is_long && separators == RunSeparators::All {
            return;
        }
        if !is_long {
            self.parted_runs.insert(run);
        }
        visit_card_parts(run.get(..parts_max).unwrap_or(run), &mut |part| {
            self.add_card(part);
            !self.has_too_many
        });
        self.has_too_many |= is_long;
    }

    /// Adds the numbers in the text of a fingerprint expression of the request. The text has the
    /// same fingerprint as every token with the same expression result, so a number in it is a
    /// guess, whatever its source. A text that the expression of the token type could also produce
    /// counts like the data itself, so that the same guess has one budget. Texts of cards are added
    /// by [`Collector::add_text`].
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
        for run in split_digit_runs(text) {
            self.add(kind, ["", last_four(&run)], &run);
        }
    }

    /// As [`Collector::add_text`], but only for a text of digits and separators.
    fn add_digits_only(&mut self, text: &str) -> Option<Zeroizing<String>> {
        let digits = separated_digits(text)?;
        if digits.len() >= RUN_DIGITS_MIN {
            self.add_card(&digits);
        }
        Some(digits)
    }

    /// Adds texts and numbers of untyped data that consist only of digits and separators.
    fn add_leaves(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => (),
            Value::Number(number) => drop(self.add_digits_only(number.as_str())),
            Value::String(text) => drop(self.add_digits_only(text)),
            Value::Array(items) => items.iter().for_each(|it| self.add_leaves(it)),
            Value::Object(members) => members.values().for_each(|it| self.add_leaves(it)),
        }
    }

    /// Adds the numbers with nine digits in a text that is compared as a whole. In an object, a social
    /// security number can be guessed like any other. Numbers of customers and orders have nine digits
    /// too, so these numbers do not spend the budget of the application.
    fn add_free_text(&mut self, text: &str) {
        if !self.counts_every_run || self.has_too_many {
            return;
        }
        self.is_in_free_text = true;
        let mut visit = |number: &str| {
            self.add_identity(number);
            !self.has_too_many
        };
        visit_identity_numbers(text, &mut visit);
        if has_exponent(text) {
            visit_digit_runs(text, IDENTITY_DIGITS, &mut |_, run| {
                run.len() != IDENTITY_DIGITS || visit(run)
            });
        }
        self.is_in_free_text = false;
    }

    /// Adds the runs in all texts, numbers and member names.
    fn add_value_runs(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => (),
            Value::Number(number) => self.add_runs(number.as_str()),
            Value::String(text) => self.add_runs(text),
            Value::Array(items) => items.iter().for_each(|it| self.add_value_runs(it)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.add_runs(name);
                    self.add_value_runs(member);
                }
            }
        }
    }

    /// Adds the numbers of a request body without a known token type.
    fn add_body(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => (),
            Value::Number(number) => self.add_untyped_text(number.as_str()),
            Value::String(text) => self.add_untyped_text(text),
            Value::Array(items) => items.iter().for_each(|it| self.add_body(it)),
            Value::Object(members) => {
                let text_of = |name: &str| members.get(name).and_then(Value::as_str);
                if let Some(account) = text_of("account_number") {
                    self.add_bank_account(text_of("routing_number").unwrap_or_default(), account);
                }
                let account_type = TokenType::UsBankAccountNumber.as_str();
                if let Some(account) =
                    text_of("data").filter(|_| text_of("type") == Some(account_type))
                {
                    self.add_bank_account("", account);
                }
                // As in the first request, the number of a card counts as a whole only.
                let is_card =
                    text_of("type").and_then(TokenType::parse).is_some_and(TokenType::is_card);
                let number = members.get("data").filter(|_| is_card).and_then(card::card_number);
                if let Some(number) = number {
                    self.parted_runs.insert(number);
                }
                for (name, member) in members {
                    self.add_free_text(name);
                    self.add_body(member);
                }
            }
        }
    }

    fn add_untyped_text(&mut self, text: &str) {
        if let Some(digits) = self.add_digits_only(text)
            && digits.len() == IDENTITY_DIGITS
        {
            self.add_identity(&digits);
        }
        self.add_free_text(text);
    }
}

fn request_numbers_max(class: CallerClass) -> usize {
    match class {
        CallerClass::Public => BROWSER_NUMBERS_MAX,
        CallerClass::Private => NUMBERS_MAX,
    }
}

/// The maximum number of counted numbers of each token in a request.
fn token_numbers_max(caller: &Caller, tokens: usize) -> usize {
    let request_max = request_numbers_max(CallerClass::for_caller(caller));
    request_max.checked_div(tokens).unwrap_or(request_max).max(TOKEN_NUMBERS_MIN)
}

/// The numbers of one token: its own, and those in the texts of its expressions.
///
/// Of data that the caller does not know, only the number that the type names is counted: the mask of
/// the type shows its group. Any other number in it, and the number of its numbers, would tell the
/// caller about hidden digits when a budget or a maximum is reached.
pub(super) fn collect_token_numbers(
    caller: &Caller,
    rules: DisclosureRules,
    evaluated: &EvaluatedNumbers<'_>,
) -> CollectedNumbers {
    let EvaluatedNumbers { token_type, data, texts, is_known, tokens } = evaluated;
    let mut collector = Collector::new(caller, rules, token_numbers_max(caller, *tokens));
    collector.add_own_number(*token_type, data.expose());
    if *is_known {
        collector.add_token_runs(*token_type, data.expose(), texts);
    }
    collector.finish()
}

impl Collector<'_> {
    /// Adds the number that the type names, unless the patch of a caller without a right to read
    /// does not write it.
    fn add_own_number(&mut self, token_type: TokenType, data: &Value) {
        let text_of = |name: &str| data.get(name).and_then(Value::as_str);
        match token_type {
            TokenType::Card | TokenType::CardNumber | TokenType::NetworkToken => {
                card::card_number(data).into_iter().for_each(|it| self.add_card(it));
            }
            TokenType::Bank => {
                if let Some(account) = text_of("account_number") {
                    self.add_bank_account(text_of("routing_number").unwrap_or_default(), account);
                }
            }
            TokenType::UsBankAccountNumber => {
                data.as_str().into_iter().for_each(|it| self.add_bank_account("", it));
            }
            TokenType::SocialSecurityNumber | TokenType::EmployerIdNumber => {
                data.as_str().into_iter().for_each(|it| self.add_identity(&extract_digits(it)));
            }
            TokenType::Token | TokenType::UsBankRoutingNumber => (),
        }
    }

    /// Adds the other numbers in the data, and those in the texts of the expressions.
    fn add_token_runs(&mut self, token_type: TokenType, data: &Value, texts: &EvaluatedTexts) {
        if token_type == TokenType::Token {
            // A card number inside an object can be guessed like any other.
            self.add_leaves(data);
        }
        if token_type.is_card() {
            // The fingerprint of the type is over the whole number, so a part of it is no guess.
            let number = card::card_number(data).unwrap_or_default();
            self.parted_runs.insert(number);
        }
        self.add_value_runs(data);
        self.add_texts(token_type, texts);
    }

    /// Adds the numbers in the texts that the expressions evaluated to.
    fn add_texts(&mut self, token_type: TokenType, texts: &EvaluatedTexts) {
        let fingerprint = texts.fingerprint.as_ref();
        for text in texts.iter() {
            match token_type {
                // Of prose and structured data, only the runs are numbers.
                TokenType::Token => drop(self.add_digits_only(text)),
                TokenType::Card
                | TokenType::CardNumber
                | TokenType::NetworkToken
                | TokenType::Bank
                | TokenType::UsBankAccountNumber
                | TokenType::UsBankRoutingNumber
                | TokenType::SocialSecurityNumber
                | TokenType::EmployerIdNumber => self.add_text(text),
            }
        }
        // The type counted account and routing number already. Together they would have more parts than
        // a browser may send, if banks fill the account number with zeros.
        let is_own_account =
            |it: &&FingerprintText| token_type == TokenType::Bank && it.is_from_type_expression;
        let other_fingerprint = fingerprint.filter(|it| !is_own_account(it));
        let fingerprint_text = other_fingerprint.map(|it| &it.text);
        for text in fingerprint_text.into_iter().chain(&texts.indexes).chain(&texts.id) {
            self.add_runs(text);
        }
        // The digest of an index entry is the same for every type.
        for digits in texts.indexes.iter().filter_map(|it| separated_digits(it)) {
            if digits.len() == IDENTITY_DIGITS {
                self.add_identity(&digits);
            }
        }
        let own_text =
            |it: &&FingerprintText| token_type != TokenType::Token && it.is_from_type_expression;
        if let Some(it) = fingerprint.filter(|it| !it.is_from_type_expression) {
            self.add_fingerprint_text(token_type, &it.text);
        }
        // After the numbers that spend the budget of the application.
        let fingerprint_text = fingerprint.filter(|it| !own_text(it)).map(|it| &it.text);
        for text in fingerprint_text.into_iter().chain(&texts.indexes).chain(&texts.id) {
            self.add_free_text(text);
        }
    }
}

/// The numbers of a search term.
pub(super) fn collect_term_numbers(
    caller: &Caller,
    rules: DisclosureRules,
    term: &str,
) -> CollectedNumbers {
    let mut collector = Collector::new(caller, rules, NUMBERS_MAX);
    collector.add_text(term);
    collector.add_runs(term);
    if let Some(digits) = separated_digits(term).filter(|it| it.len() == IDENTITY_DIGITS) {
        collector.add_identity(&digits);
    }
    collector.add_free_text(term);
    collector.finish()
}

/// The numbers of a request body that is compared with an earlier one.
pub(super) fn collect_body_numbers(
    caller: &Caller,
    rules: DisclosureRules,
    body: &Plaintext,
) -> CollectedNumbers {
    let mut collector = Collector::new(caller, rules, NUMBERS_MAX);
    collector.add_body(body.expose());
    collector.add_value_runs(body.expose());
    collector.finish()
}
