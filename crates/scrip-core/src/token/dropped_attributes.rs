//! The attributes of typed data that a create did not store.

use serde_json::Value;

use crate::card::TokenType;

/// Attributes that a client sent and that the type does not have. A name can be a secret, such as a
/// card number, so only names of a fixed list are repeated; others are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DroppedAttributes {
    pub names: Vec<&'static str>,
    pub other_count: usize,
}

/// Names that clients use for attributes which the types do not have.
const KNOWN_NAMES: &[&str] = &[
    "account_holder_name",
    "account_holder_type",
    "account_name",
    "account_type",
    "address",
    "bank_name",
    "billing_address",
    "billing_details",
    "brand",
    "card_holder_name",
    "cardholder",
    "cardholder_name",
    "country",
    "currency",
    "cvv",
    "cvv2",
    "exp_month",
    "exp_year",
    "expiration",
    "expiration_date",
    "expiry",
    "expiry_month",
    "expiry_year",
    "first_name",
    "funding",
    "holder_name",
    "issuer",
    "last_name",
    "name",
    "name_on_card",
    "postal_code",
    "security_code",
    "zip",
    "zip_code",
];

impl DroppedAttributes {
    /// Call it before the data is checked, which drops the attributes.
    pub(crate) fn find(token_type: TokenType, data: &Value) -> Self {
        let mut dropped = Self::default();
        let (Some(kept_names), Value::Object(object)) = (token_type.data_attributes(), data) else {
            return dropped;
        };
        let unknown = object
            .iter()
            .filter(|(name, value)| !kept_names.contains(&name.as_str()) && !value.is_null());
        for (name, _) in unknown {
            match KNOWN_NAMES.iter().find(|it| *it == name) {
                Some(known_name) => dropped.names.push(*known_name),
                None => dropped.other_count = dropped.other_count.saturating_add(1),
            }
        }
        dropped
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.other_count == 0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(token_type: TokenType, data: &Value, names: &[&'static str], other_count: usize) {
        let expected = DroppedAttributes { names: names.to_vec(), other_count };
        assert_eq!(DroppedAttributes::find(token_type, data), expected);
    }

    #[test]
    fn only_names_of_the_list_are_repeated() {
        let card = json!({
            "number": "4242424242424242", "cvc": "123", "cardholder_name": "Jo", "cvv": "123",
            "4000056655665556": "x", "Jo Bloggs": 1, "zip": null,
        });
        check(TokenType::Card, &card, &["cardholder_name", "cvv"], 2);
        check(TokenType::NetworkToken, &card, &["cardholder_name", "cvv"], 2);
        let bank = json!({"routing_number": "021000021", "account_number": "1", "number": "x"});
        check(TokenType::Bank, &bank, &[], 1);
        check(TokenType::Token, &card, &[], 0);
        check(TokenType::CardNumber, &json!("4242424242424242"), &[], 0);
    }
}
