//! The types of token: what each accepts, and what it assumes when a request says nothing.

use std::sync::LazyLock;

use scrip_expression::{Expression, Template};
use serde_json::{Value, json};

use crate::{
    card::{self, bank},
    error::FieldError,
    policy::TenantKind,
    token::Container,
};

words! {
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

/// What a type assumes. Compiled once.
struct TypeDefaults {
    container: Container,
    fingerprint: (&'static str, Expression),
    mask: Option<(Value, Template)>,
    indexes: Vec<String>,
}

impl TokenType {
    /// Checks data and brings it into the form that is kept.
    ///
    /// # Errors
    /// The data is not of this type.
    pub(crate) fn check(self, data: &mut Value, kind: TenantKind) -> Result<(), Vec<FieldError>> {
        let text = |check: &dyn Fn(&str) -> Result<(), &'static str>| match &*data {
            Value::String(text) => check(text).map_err(|it| vec![FieldError::new("data", it)]),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => Err(vec![FieldError::new("data", "must be text")]),
        };
        match self {
            Self::Token => Ok(()),
            Self::Card => card::check_card(data, kind),
            Self::NetworkToken => card::check_card(data, TenantKind::Production),
            Self::CardNumber => text(&|it| card::check_number(it, 13)),
            Self::Bank => bank::check_bank(data),
            Self::UsBankAccountNumber => text(&|it| bank::check_account_number(it, 3)),
            Self::UsBankRoutingNumber => text(&bank::check_routing_number),
            Self::SocialSecurityNumber | Self::EmployerIdNumber => text(&check_identity_number),
        }
    }

    #[must_use]
    pub fn is_card(self) -> bool {
        matches!(self, Self::Card | Self::CardNumber | Self::NetworkToken)
    }

    /// Whether its data may hold a card verification code, which is kept apart.
    #[must_use]
    pub fn has_cvc(self) -> bool {
        matches!(self, Self::Card | Self::NetworkToken)
    }

    #[must_use]
    pub fn default_container(self) -> Container {
        self.defaults().container.clone()
    }

    #[must_use]
    pub fn default_fingerprint_expression(self) -> &'static str {
        self.defaults().fingerprint.0
    }

    pub(crate) fn default_fingerprint(self) -> &'static Expression {
        &self.defaults().fingerprint.1
    }

    #[must_use]
    pub fn default_mask(self) -> Option<&'static Value> {
        self.defaults().mask.as_ref().map(|(source, _)| source)
    }

    /// A mask that says what the type assumes is not one's own: only the type's hides all where it would
    /// hide nothing.
    pub(crate) fn custom_mask(self, mask: Value) -> Option<Value> {
        (!mask.is_null() && Some(&mask) != self.default_mask()).then_some(mask)
    }

    pub(crate) fn default_mask_template(self) -> Option<&'static Template> {
        self.defaults().mask.as_ref().map(|(_, template)| template)
    }

    #[must_use]
    pub fn default_indexes(self) -> &'static [String] {
        &self.defaults().indexes
    }

    /// The property that a mask must not leave bare; nothing when the data is the secret itself.
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

    /// The properties that the type's own mask shows in clear.
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

#[expect(clippy::expect_used, reason = "constants of this file, all of them read by a test")]
fn build_defaults(
    container: &str,
    fingerprint: &'static str,
    mask: Option<Value>,
    indexes: &[&str],
) -> TypeDefaults {
    let template = |mask: Value| {
        let template = Template::parse(&mask).expect("a default mask is well formed");
        (mask, template)
    };
    TypeDefaults {
        container: Container::parse(container).expect("a default container is well formed"),
        fingerprint: (
            fingerprint,
            Expression::parse(fingerprint).expect("a default fingerprint is well formed"),
        ),
        mask: mask.map(template),
        indexes: indexes.iter().map(|it| (*it).to_owned()).collect(),
    }
}

fn check_identity_number(text: &str) -> Result<(), &'static str> {
    let known = text.bytes().all(|it| it.is_ascii_digit() || it == b'-');
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if known && digits == 9 && text.len() <= 11 {
        Ok(())
    } else {
        Err("must be nine digits; - is allowed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_type_has_usable_defaults_and_parses_back() {
        for kind in TokenType::ALL {
            assert_eq!(TokenType::parse(kind.as_str()), Some(kind));
            assert!(kind.default_container().as_str().ends_with('/'));
            for index in kind.default_indexes() {
                Expression::parse(index).unwrap();
            }
        }
    }

    #[track_caller]
    fn check(kind: TokenType, mut data: Value, valid: bool) {
        let checked = kind.check(&mut data, TenantKind::Production);
        assert_eq!(checked.is_ok(), valid, "{kind:?} {data}");
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
    }
}
