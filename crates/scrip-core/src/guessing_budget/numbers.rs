//! Which numbers count, and in which group.
//!
//! A group is what a masked reader sees of a number: first six and last four of a card number,
//! routing number and last four of a bank account, last four of a social security or employer id.

use serde_json::Value;

use crate::{
    caller::Caller,
    card,
    container::Containers,
    guessing_budget::{Bucket, BucketKind, CallerClass, EvaluatedNumbers},
    plain::Plain,
    token_type::TokenType,
};

/// A number by its digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedNumber {
    pub(crate) group: Bucket,
    pub(crate) number: [u8; 16],
}

/// A text with fewer digits is no card number.
const CARD_DIGITS_MIN: usize = 12;
const IDENTITY_DIGITS: usize = 9;
/// What people write between the digits of a number.
const SEPARATORS: &[char] = &[' ', '-', '.', '_', '/', ',', ':', '|'];

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
    found: Vec<CountedNumber>,
}

impl<'a> Collector<'a> {
    fn new(caller: &'a Caller) -> Self {
        Self { caller, class: CallerClass::of(caller), found: Vec::new() }
    }

    fn add(&mut self, kind: NumberKind, group: [&str; 2], digits: &str) {
        let keys = &self.caller.tenant().keys;
        let [first, last] = group.map(str::as_bytes);
        let name = keys.guess_digest(&[b"group", kind.label(), first, last]);
        let number = keys.guess_digest(&[b"number", kind.label(), first, digits.as_bytes()]);
        let group = Bucket::new(self.class, BucketKind::Group, name);
        let counted = CountedNumber { group, number: number.0 };
        if !self.found.contains(&counted) {
            self.found.push(counted);
        }
    }

    fn card(&mut self, digits: &str) {
        let first = digits.get(..6).unwrap_or_default();
        self.add(NumberKind::Card, [first, last_four(digits)], digits);
    }

    /// Of an account number with at most four digits nothing is shown, so nothing of it is in the
    /// group's name.
    fn bank(&mut self, routing_number: &str, account_number: &str) {
        let last = if account_number.len() > 4 { last_four(account_number) } else { "" };
        self.add(NumberKind::Bank, [routing_number, last], account_number);
    }

    fn identity(&mut self, digits: &str) {
        self.add(NumberKind::Identity, ["", last_four(digits)], digits);
    }

    /// All digits of a text taken together, whatever is between them.
    fn text(&mut self, text: &str) {
        let digits = digits_of(text);
        if digits.len() >= CARD_DIGITS_MIN {
            self.card(&digits);
        }
    }

    /// The same, but only where the text is digits and separators and nothing else.
    fn plain_text(&mut self, text: &str) -> Option<String> {
        let digits = separated_digits(text)?;
        if digits.len() >= CARD_DIGITS_MIN {
            self.card(&digits);
        }
        Some(digits)
    }

    /// Any value of a request body whose type is not known.
    fn body(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => (),
            Value::Number(number) => self.loose(&number.to_string()),
            Value::String(text) => self.loose(text),
            Value::Array(items) => items.iter().for_each(|it| self.body(it)),
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str);
                if let Some(account) = text("account_number") {
                    self.bank(text("routing_number").unwrap_or_default(), account);
                }
                let account_type = TokenType::UsBankAccountNumber.as_str();
                if let Some(account) = text("data").filter(|_| text("type") == Some(account_type)) {
                    self.bank("", account);
                }
                members.values().for_each(|it| self.body(it));
            }
        }
    }

    fn loose(&mut self, text: &str) {
        if let Some(digits) = self.plain_text(text)
            && digits.len() == IDENTITY_DIGITS
        {
            self.identity(&digits);
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
            collector.card(card::number_of(data).unwrap_or_default());
        }
        TokenType::Bank => collector.bank(text("routing_number"), text("account_number")),
        TokenType::UsBankAccountNumber => collector.bank("", data.as_str().unwrap_or_default()),
        TokenType::SocialSecurityNumber | TokenType::EmployerIdNumber => {
            collector.identity(&digits_of(data.as_str().unwrap_or_default()));
        }
        TokenType::Token | TokenType::UsBankRoutingNumber => (),
    }
    for text in *texts {
        match token_type {
            // Prose and structured data hold many digits that are no number.
            TokenType::Token => drop(collector.plain_text(text)),
            TokenType::Card
            | TokenType::CardNumber
            | TokenType::NetworkToken
            | TokenType::Bank
            | TokenType::UsBankAccountNumber
            | TokenType::UsBankRoutingNumber
            | TokenType::SocialSecurityNumber
            | TokenType::EmployerIdNumber => collector.text(text),
        }
    }
    collector.found
}

/// The numbers of a search term.
pub(super) fn searched_numbers(caller: &Caller, term: &str) -> Vec<CountedNumber> {
    let mut collector = Collector::new(caller);
    collector.text(term);
    if let Some(digits) = separated_digits(term).filter(|it| it.len() == IDENTITY_DIGITS) {
        collector.identity(&digits);
    }
    collector.found
}

/// The numbers of a request body that is about to be compared with an earlier one.
pub(crate) fn compared_numbers(caller: &Caller, body: &Plain) -> Vec<CountedNumber> {
    let mut collector = Collector::new(caller);
    collector.body(body.expose());
    collector.found
}

/// Where a request body says that its token is to be, or where tokens of its type are by default.
pub(super) fn named_containers(body: &Plain) -> Containers {
    let body = body.expose();
    let named = body.get("containers").and_then(Value::as_array);
    let named = named.map(|it| it.iter().filter_map(Value::as_str));
    let named = named.and_then(|it| Containers::parse(it).ok());
    let token_type = body.get("type").and_then(Value::as_str).and_then(TokenType::parse);
    let default = || token_type.unwrap_or(TokenType::Token).default_container();
    named.unwrap_or_else(|| Containers::from(default()))
}

/// `None` for a text that holds anything but digits and separators.
pub(super) fn separated_digits(text: &str) -> Option<String> {
    let known = |it: char| it.is_ascii_digit() || SEPARATORS.contains(&it);
    text.chars().all(known).then(|| digits_of(text))
}

fn digits_of(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

pub(super) fn last_four(digits: &str) -> &str {
    digits.get(digits.len().saturating_sub(4)..).unwrap_or_default()
}
