//! The token types: their validation and their defaults; and card data: checksum, BIN, masks and
//! look-alike numbers.

pub mod bank;
pub mod bin_data;
pub mod connection_formula;
mod fields;

use std::sync::LazyLock;

use scrip_expression::{Expression, Template};
use serde_json::{Value, json};

use crate::{
    FieldError,
    card::{
        bin_data::{BinData, BinDetails, BinLookup, BinSource, is_sandbox_number},
        fields::{bin_len, check_required, is_out_of_range, text_rule},
    },
    types::{Container, TenantKind},
};

/// The details of a card in a response, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardDetails {
    pub bin: String,
    pub last4: String,
    pub expiration_month: Option<u64>,
    pub expiration_year: Option<u64>,
    /// The known details of the issuer.
    pub bin_details: BinDetails,
    pub bin_source: BinSource,
}

pub(crate) const DATA_ATTRIBUTES: &[&str] =
    &["number", "expiration_month", "expiration_year", "cvc"];

/// Validates card data. Unknown attributes are dropped, so that a CVC under another name is not
/// stored permanently. The attribute `cvc` remains, and the caller of this function removes it.
pub(crate) fn check_card(data: &mut Value, kind: TenantKind) -> Result<(), Vec<FieldError>> {
    let Value::Object(object) = data else {
        return Err(vec![FieldError::new("data", "must be an object")]);
    };
    object.retain(|name, value| DATA_ATTRIBUTES.contains(&name.as_str()) && !value.is_null());
    if let Some(Value::Number(number)) = object.get("cvc") {
        let text = Value::String(number.to_string());
        object.insert("cvc".to_owned(), text);
    }
    let errors: Vec<_> = [
        check_required(object, "number", "data.number", |it| check_number_or_sandbox(it, kind)),
        object
            .contains_key("cvc")
            .then(|| check_required(object, "cvc", "data.cvc", check_cvc))
            .flatten(),
        is_out_of_range(object.get("expiration_month"), 1..=12).then(|| {
            FieldError::new(
                "data.expiration_month",
                "must be an integer from 1 to 12, without quotes",
            )
        }),
        is_out_of_range(object.get("expiration_year"), 1000..=9999).then(|| {
            FieldError::new(
                "data.expiration_year",
                "must be an integer of four digits, without quotes",
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks a card number. Test tenants may also store sandbox cards, of which some have a wrong
/// checksum.
fn check_number_or_sandbox(text: &str, kind: TenantKind) -> Result<(), &'static str> {
    if kind == TenantKind::Test && is_sandbox_number(text) {
        return Ok(());
    }
    check_number(text, 12)
}

fn check_cvc(text: &str) -> Result<(), &'static str> {
    let has_only_digits = text.bytes().all(|it| it.is_ascii_digit());
    if has_only_digits && (3..=4).contains(&text.len()) {
        Ok(())
    } else {
        Err("must be 3 or 4 digits")
    }
}

/// The details of a card: of an object with a number, or of the number alone. The BIN can be
/// shorter than the one in masks, if the issuer's BIN is shorter, but never longer.
pub(crate) fn card_details(data: &Value, bins: &BinData, kind: TenantKind) -> Option<CardDetails> {
    let number = card_number(data)?;
    let BinLookup { details, source } = bins.find(kind, number);
    let visible_len = bin_len(number);
    let response_len = details.bin_digits.map_or(visible_len, |it| it.count().min(visible_len));
    Some(CardDetails {
        bin: number.get(..response_len)?.to_owned(),
        last4: number.get(number.len().checked_sub(4)?..)?.to_owned(),
        expiration_month: data.get("expiration_month").and_then(Value::as_u64),
        expiration_year: data.get("expiration_year").and_then(Value::as_u64),
        bin_details: details,
        bin_source: source,
    })
}

/// The number of card data: an object with a number, or the number alone.
pub(crate) fn card_number(data: &Value) -> Option<&str> {
    data.as_str().or_else(|| data.get("number")?.as_str())
}

/// Checks the length and the checksum of a card number.
/// Errors: the number of digits is wrong, or the Luhn checksum is not valid.
pub(crate) fn check_number(text: &str, digits_min: usize) -> Result<(), &'static str> {
    let has_only_digits = text.bytes().all(|it| it.is_ascii_digit());
    if !has_only_digits || !(digits_min..=19).contains(&text.len()) {
        return Err(if digits_min == 12 {
            "must be 12 to 19 digits"
        } else {
            "must be 13 to 19 digits"
        });
    }
    if luhn_sum(text).is_multiple_of(10) {
        Ok(())
    } else {
        Err("is not a card number: its checksum fails")
    }
}

fn luhn_sum(digits: &str) -> u32 {
    let weigh =
        |(index, digit): (usize, u8)| match (u32::from(digit - b'0'), index.is_multiple_of(2)) {
            (digit, true) => digit,
            (digit @ 0..5, false) => digit * 2,
            (digit, false) => digit * 2 - 9,
        };
    digits.bytes().rev().enumerate().map(weigh).sum()
}

/// The masked number: BIN and last four. It is the input of expressions with results that other
/// callers see, so they cannot show more.
pub(crate) fn mask_number(number: &str) -> String {
    let (bin_end, last_four_start) = (bin_len(number), number.len().saturating_sub(4));
    let mask = |(index, character)| {
        if index < bin_end || index >= last_four_start { character } else { 'X' }
    };
    number.chars().enumerate().map(mask).collect()
}

/// Makes another number with the same BIN, last four and length, and with a valid checksum. The
/// digits in between are `fill`, except one digit that corrects the checksum. If an expression
/// gives the same result for two of these, the result does not depend on the hidden digits.
pub(crate) fn make_lookalike(number: &str, fill: u8) -> String {
    let (bin_end, last_four_start) = (bin_len(number), number.len().saturating_sub(4));
    let replace_hidden = |(index, character)| {
        if index < bin_end || index >= last_four_start { character } else { char::from(fill) }
    };
    let filled: String = number.chars().enumerate().map(replace_hidden).collect();
    // One digit is enough to correct the checksum.
    let with_digit = |digit: u8| {
        let replace_first = |(index, character)| {
            if index == bin_end && index < last_four_start { char::from(digit) } else { character }
        };
        filled.chars().enumerate().map(replace_first).collect::<String>()
    };
    let corrected = (b'0'..=b'9').map(with_digit).find(|it| luhn_sum(it).is_multiple_of(10));
    corrected.unwrap_or(filled)
}

/// Whether a text contains a number with the same length, BIN and last four, whatever characters
/// are between the digits.
pub(crate) fn contains_lookalike(text: &str, number: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let last_four_start = number.len().saturating_sub(4);
    let is_lookalike = |it: &[u8]| {
        let candidate = std::str::from_utf8(it).unwrap_or_default();
        candidate.get(..bin_len(number)) == number.get(..bin_len(number))
            && candidate.get(last_four_start..) == number.get(last_four_start..)
    };
    !number.is_empty() && digits.as_bytes().windows(number.len()).any(is_lookalike)
}

/// Whether a text contains a possible card number. Any characters except letters may be between the
/// digits.
pub fn contains_card_number(text: &str) -> bool {
    let unseparated: String = text.chars().filter(|it| it.is_alphanumeric()).collect();
    let mut runs = unseparated.split(|it: char| !it.is_ascii_digit());
    let is_card_number =
        |it: &[u8]| std::str::from_utf8(it).is_ok_and(|it| check_number(it, 13).is_ok());
    runs.any(|run| (13..=19).any(|length| run.as_bytes().windows(length).any(is_card_number)))
}

words! {
    /// The type of a token, which decides its validation and its defaults.
    pub enum TokenType {
        Token = "token",
        Card = "card",
        CardNumber = "card_number",
        NetworkToken = "network_token",
        Bank = "bank",
        UsBankAccountNumber = "us_bank_account_number",
        UsBankRoutingNumber = "us_bank_routing_number",
        SocialSecurityNumber = "social_security_number",
        EmployerIdNumber = "employer_id_number",
    }
}

/// The defaults of a type. Compiled once.
struct TypeDefaults {
    container: Container,
    fingerprint: (&'static str, Expression),
    mask: Option<(Value, Template)>,
    indexes: Vec<String>,
}

impl TokenType {
    /// The attributes of the data, for types whose data is an object with fixed attributes. Others
    /// are dropped.
    pub(crate) fn data_attributes(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Card | Self::NetworkToken => Some(DATA_ATTRIBUTES),
            Self::Bank => Some(bank::DATA_ATTRIBUTES),
            Self::Token
            | Self::CardNumber
            | Self::UsBankAccountNumber
            | Self::UsBankRoutingNumber
            | Self::SocialSecurityNumber
            | Self::EmployerIdNumber => None,
        }
    }

    /// Validates data and normalizes it for storage.
    /// Errors: the data is not valid for this type.
    pub(crate) fn check(self, data: &mut Value, kind: TenantKind) -> Result<(), Vec<FieldError>> {
        let check_text = |check: &dyn Fn(&str) -> Result<(), &'static str>| {
            let checked = match data.as_str() {
                Some(text) => check(text),
                None => Err(text_rule(data)),
            };
            checked.map_err(|it| vec![FieldError::new("data", it)])
        };
        match self {
            Self::Token => Ok(()),
            Self::Card => check_card(data, kind),
            Self::NetworkToken => check_card(data, TenantKind::Production),
            Self::CardNumber => check_text(&|it| check_number(it, 13)),
            Self::Bank => bank::check_bank(data),
            Self::UsBankAccountNumber => check_text(&|it| bank::check_account_number(it, 3)),
            Self::UsBankRoutingNumber => check_text(&bank::check_routing_number),
            Self::SocialSecurityNumber | Self::EmployerIdNumber => {
                check_text(&check_identity_number)
            }
        }
    }

    pub fn is_card(self) -> bool {
        matches!(self, Self::Card | Self::CardNumber | Self::NetworkToken)
    }

    /// Whether the data may contain a CVC, which is stored separately.
    pub(crate) fn has_cvc(self) -> bool {
        matches!(self, Self::Card | Self::NetworkToken)
    }

    pub fn default_container(self) -> Container {
        self.defaults().container.clone()
    }

    pub fn default_fingerprint_expression(self) -> &'static str {
        self.defaults().fingerprint.0
    }

    pub(crate) fn default_fingerprint(self) -> &'static Expression {
        &self.defaults().fingerprint.1
    }

    pub fn default_mask(self) -> Option<&'static Value> {
        self.defaults().mask.as_ref().map(|(source, _)| source)
    }

    /// The mask; `None` if it equals the default of the type. A stored mask never hides the whole
    /// secret; the default mask does if it would hide nothing.
    pub(crate) fn custom_mask(self, mask: Value) -> Option<Value> {
        (!mask.is_null() && Some(&mask) != self.default_mask()).then_some(mask)
    }

    pub(crate) fn default_mask_template(self) -> Option<&'static Template> {
        self.defaults().mask.as_ref().map(|(_, template)| template)
    }

    pub(crate) fn default_indexes(self) -> &'static [String] {
        &self.defaults().indexes
    }

    /// The property that a mask must not show; `None` when the data itself is the secret.
    pub(crate) fn secret_property(self) -> Option<&'static str> {
        match self {
            Self::Card | Self::NetworkToken => Some("number"),
            Self::Bank => Some("account_number"),
            Self::Token
            | Self::CardNumber
            | Self::UsBankAccountNumber
            | Self::UsBankRoutingNumber
            | Self::SocialSecurityNumber
            | Self::EmployerIdNumber => None,
        }
    }

    /// The properties that the default mask shows in clear.
    pub(crate) fn unmasked_properties(self) -> &'static [&'static str] {
        match self {
            Self::Card | Self::NetworkToken => &["expiration_month", "expiration_year"],
            Self::Bank => &["routing_number"],
            Self::Token
            | Self::CardNumber
            | Self::UsBankAccountNumber
            | Self::UsBankRoutingNumber
            | Self::SocialSecurityNumber
            | Self::EmployerIdNumber => &[],
        }
    }

    fn defaults(self) -> &'static TypeDefaults {
        static TOKEN: LazyLock<TypeDefaults> =
            LazyLock::new(|| build_defaults("/general/high/", "{{ data | stringify }}", None, &[]));
        static CARD: LazyLock<TypeDefaults> = LazyLock::new(|| {
            let mask = json!({
                "number": "{{ data.number | reveal_last: 4 }}",
                "expiration_month": "{{ data.expiration_month }}",
                "expiration_year": "{{ data.expiration_year }}",
            });
            build_defaults("/pci/high/", "{{ data.number }}", Some(mask), &[])
        });
        static CARD_NUMBER: LazyLock<TypeDefaults> =
            LazyLock::new(|| build_defaults("/pci/high/", "{{ data }}", last_four_mask(), &[]));
        static BANK: LazyLock<TypeDefaults> = LazyLock::new(|| {
            let mask = json!({
                "routing_number": "{{ data.routing_number }}",
                "account_number": "{{ data.account_number | reveal_last: 4 }}",
            });
            let fingerprint = "{{ data.account_number }}|{{ data.routing_number }}";
            build_defaults("/bank/high/", fingerprint, Some(mask), &[])
        });
        static ACCOUNT: LazyLock<TypeDefaults> =
            LazyLock::new(|| build_defaults("/bank/high/", "{{ data }}", last_four_mask(), &[]));
        static ROUTING: LazyLock<TypeDefaults> =
            LazyLock::new(|| build_defaults("/bank/low/", "{{ data }}", last_four_mask(), &[]));
        static IDENTITY: LazyLock<TypeDefaults> = LazyLock::new(|| {
            let indexes = ["{{ data }}", "{{ data | remove: '-' }}", "{{ data | last4 }}"];
            build_defaults("/pii/high/", "{{ data | remove: '-' }}", last_four_mask(), &indexes)
        });
        match self {
            Self::Token => &TOKEN,
            Self::Card | Self::NetworkToken => &CARD,
            Self::CardNumber => &CARD_NUMBER,
            Self::Bank => &BANK,
            Self::UsBankAccountNumber => &ACCOUNT,
            Self::UsBankRoutingNumber => &ROUTING,
            Self::SocialSecurityNumber | Self::EmployerIdNumber => &IDENTITY,
        }
    }
}

fn last_four_mask() -> Option<Value> {
    Some(json!("{{ data | reveal_last: 4 }}"))
}

#[expect(clippy::expect_used, reason = "constants of this file; a test parses all of them")]
fn build_defaults(
    container: &str,
    fingerprint: &'static str,
    mask: Option<Value>,
    indexes: &[&str],
) -> TypeDefaults {
    let compile = |mask: Value| {
        let template = Template::parse(&mask).expect("the default mask is valid");
        (mask, template)
    };
    TypeDefaults {
        container: Container::parse(container).expect("the default container is valid"),
        fingerprint: (
            fingerprint,
            Expression::parse(fingerprint).expect("the default fingerprint is valid"),
        ),
        mask: mask.map(compile),
        indexes: indexes.iter().map(|it| (*it).to_owned()).collect(),
    }
}

fn check_identity_number(text: &str) -> Result<(), &'static str> {
    let has_allowed_characters = text.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if has_allowed_characters && digits == 9 && text.len() <= 11 {
        Ok(())
    } else {
        Err("must have nine digits; - is allowed")
    }
}

#[cfg(test)]
mod tests;
