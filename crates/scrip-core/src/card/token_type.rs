//! The token types: their validation and their defaults.

use std::sync::LazyLock;

use scrip_expression::{Expression, Template};
use serde_json::{Value, json};

use crate::{
    FieldError,
    card::{self, bank, fields::text_rule},
    types::{Container, TenantKind},
};

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
            Self::Card | Self::NetworkToken => Some(card::DATA_ATTRIBUTES),
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
            Self::Card => card::check_card(data, kind),
            Self::NetworkToken => card::check_card(data, TenantKind::Production),
            Self::CardNumber => check_text(&|it| card::check_number(it, 13)),
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
mod tests {
    use super::*;

    #[test]
    fn every_token_type_has_usable_defaults_and_parses_back() {
        for token_type in TokenType::ALL {
            assert_eq!(TokenType::parse(token_type.as_str()), Some(token_type));
            assert!(token_type.default_container().as_str().ends_with('/'));
            for index in token_type.default_indexes() {
                Expression::parse(index).unwrap();
            }
        }
    }

    #[track_caller]
    fn check(token_type: TokenType, mut data: Value, is_valid: bool) {
        let result = token_type.check(&mut data, TenantKind::Production);
        assert_eq!(result.is_ok(), is_valid, "validation of {token_type:?} {data}");
    }

    #[test]
    fn token_data_is_validated_by_type() {
        check(TokenType::Token, json!({"any": ["thing"]}), true);
        check(TokenType::CardNumber, json!("4242424242424242"), true);
        check(TokenType::CardNumber, json!("000000000000"), false);
        check(TokenType::CardNumber, json!(4_242_424_242_424_242_u64), false);
        check(TokenType::UsBankAccountNumber, json!("123"), true);
        check(TokenType::UsBankAccountNumber, json!("12"), false);
        check(TokenType::UsBankRoutingNumber, json!("021000021"), true);
        check(TokenType::UsBankRoutingNumber, json!("021000022"), false);
        check(TokenType::SocialSecurityNumber, json!("123-45-6789"), true);
        check(TokenType::SocialSecurityNumber, json!("123456789"), true);
        check(TokenType::SocialSecurityNumber, json!("123-45-678"), false);
        check(TokenType::SocialSecurityNumber, json!("12345678９"), false);
        check(TokenType::EmployerIdNumber, json!("12-3456789"), true);
        check(TokenType::EmployerIdNumber, json!("12 3456789"), false);
        check(TokenType::Bank, json!({"routing_number": "021000021", "account_number": "1"}), true);
        check(TokenType::Bank, json!({"routing_number": "021000021"}), false);
        check(TokenType::Bank, json!("021000021"), false);
        check(TokenType::NetworkToken, json!({"number": "4242424242424242"}), true);
        let expired =
            json!({"number": "4242424242424242", "expiration_month": 1, "expiration_year": 2001});
        check(TokenType::Card, expired, true);
    }
}
