//! The rule of each attribute whose value EMV does not accept, for error messages.

pub(crate) const DAY: &str = "must be a date in the format YYYYMMDD";
pub(crate) const MINUTE: &str = "must be a UTC time in the format YYYYMMDDhhmm";
pub(crate) const CURRENCY: &str = "must be three digits, ISO 4217 numeric, such as 978 for the euro; metals, \
                                   funds and 999 are not accepted";
pub(crate) const COUNTRY: &str =
    "must be three digits, ISO 3166-1 numeric, such as 276 for Germany";
pub(crate) const GIFT_CARD_AMOUNT: &str = "must be 1 to 15 digits";
const EMAIL: &str = "must be an email address of at most 254 characters, without spaces";
const PHONE: &str = "must have a country_code of 1 to 3 digits and a number of 1 to 15 digits";
const ADDRESS_TEXT: &str = "must have 1 to 50 characters";
/// The rule of an attribute without an entry in the table.
const GENERAL: &str = "has a format or length that card schemes do not accept";

/// Attributes and their rules. Attributes with a list of values are checked earlier.
#[rustfmt::skip]
const FORMAT_RULES: &[(&str, &str)] = &[
    ("purchase_info.amount", "must be 1 to 48 digits, in minor units and without punctuation"),
    ("purchase_info.currency", CURRENCY),
    ("purchase_info.exponent", "must be one digit: the number of minor units in ISO 4217"),
    ("purchase_info.date", "must be a UTC time in the format YYYYMMDDhhmmss"),
    ("purchase_info.installment_count", "must be 1 to 3 digits, and more than 1"),
    ("purchase_info.recurring_expiration", DAY),
    ("purchase_info.recurring_frequency", "must be 1 to 4 digits: the number of days"),
    ("merchant_info.mid", "must have 1 to 35 characters"),
    ("merchant_info.acquirer_bin", "must be 1 to 11 digits"),
    ("merchant_info.name", "must have 1 to 40 characters, without control characters"),
    ("merchant_info.country_code", COUNTRY),
    ("merchant_info.category_code", "must be four digits: the merchant category code"),
    ("merchant_info.risk_info.delivery_email", EMAIL),
    ("merchant_info.risk_info.gift_card_amount", GIFT_CARD_AMOUNT),
    ("merchant_info.risk_info.gift_card_count", "must be one or two digits"),
    ("merchant_info.risk_info.gift_card_currency", CURRENCY),
    ("merchant_info.risk_info.pre_order_date", DAY),
    ("requestor_info.id", "must have 1 to 35 characters"),
    ("requestor_info.name", "must have 1 to 40 characters"),
    ("requestor_info.url", "must be a URL that starts with https:// or http://, without user name, of at most 2048 characters"),
    ("cardholder_info.name", "must have 2 to 45 characters"),
    ("cardholder_info.email", EMAIL),
    ("cardholder_info.account_id", "must have 1 to 64 characters"),
    ("cardholder_info.phone_number", PHONE),
    ("cardholder_info.mobile_phone_number", PHONE),
    ("cardholder_info.work_phone_number", PHONE),
    ("cardholder_info.account_info.account_change_date", DAY),
    ("cardholder_info.account_info.account_created_date", DAY),
    ("cardholder_info.account_info.account_pwd_change_date", DAY),
    ("cardholder_info.account_info.payment_account_age", DAY),
    ("cardholder_info.account_info.shipping_address_usage_date", DAY),
    ("cardholder_info.account_info.purchase_count_half_year", "must be 1 to 4 digits"),
    ("cardholder_info.account_info.transaction_count_day", "must be 1 to 3 digits"),
    ("cardholder_info.account_info.transaction_count_year", "must be 1 to 3 digits"),
    ("cardholder_info.authentication_info.timestamp", MINUTE),
    ("cardholder_info.authentication_info.data", "must have 1 to 20000 characters"),
    ("cardholder_info.prior_authentication_info.timestamp", MINUTE),
    ("cardholder_info.prior_authentication_info.reference_id", "must have 1 to 36 characters"),
    ("cardholder_info.prior_authentication_info.data", "must have 1 to 2048 characters"),
    ("cardholder_info.billing_address.line1", ADDRESS_TEXT),
    ("cardholder_info.billing_address.line2", ADDRESS_TEXT),
    ("cardholder_info.billing_address.line3", ADDRESS_TEXT),
    ("cardholder_info.billing_address.city", ADDRESS_TEXT),
    ("cardholder_info.billing_address.postal_code", "must have 1 to 16 characters"),
    ("cardholder_info.billing_address.state_code", "must be an ISO 3166-2 code of 1 to 3 characters, without the country"),
    ("cardholder_info.billing_address.country_code", COUNTRY),
    ("cardholder_info.shipping_address.line1", ADDRESS_TEXT),
    ("cardholder_info.shipping_address.line2", ADDRESS_TEXT),
    ("cardholder_info.shipping_address.line3", ADDRESS_TEXT),
    ("cardholder_info.shipping_address.city", ADDRESS_TEXT),
    ("cardholder_info.shipping_address.postal_code", "must have 1 to 16 characters"),
    ("cardholder_info.shipping_address.state_code", "must be an ISO 3166-2 code of 1 to 3 characters, without the country"),
    ("cardholder_info.shipping_address.country_code", COUNTRY),
    ("broadcast_info", "must be an object of at most 4096 characters"),
    ("message_extensions", "must be 1 to 10 extensions with an id and a name of 1 to 64 characters and data of at most 8059 characters"),
];

/// The rule that the value of an attribute breaks.
pub(crate) fn format_rule(path: &str) -> &'static str {
    let entry = FORMAT_RULES.iter().find(|(it, _)| *it == path);
    entry.map_or(GENERAL, |(_, rule)| rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::elements;

    /// Attributes with a list of values, which have their own rule.
    fn has_listed_values(path: &str) -> bool {
        let names = [
            "authentication_category",
            "authentication_type",
            "challenge_preference",
            "request_decoupled_challenge",
            "decoupled_challenge_max_time",
            "purchase_info.transaction_type",
            "merchant_info.risk_info.delivery_time_frame",
            "merchant_info.risk_info.pre_order_purchase",
            "merchant_info.risk_info.reordered_purchase",
            "merchant_info.risk_info.shipping_method",
            "cardholder_info.account_type",
            "cardholder_info.billing_shipping_address_match",
            "cardholder_info.account_info.account_age",
            "cardholder_info.account_info.account_last_changed",
            "cardholder_info.account_info.account_pwd_last_changed",
            "cardholder_info.account_info.payment_account_created",
            "cardholder_info.account_info.shipping_address_first_used",
            "cardholder_info.account_info.shipping_account_name_match",
            "cardholder_info.account_info.suspicious_activity_observed",
            "cardholder_info.authentication_info.method",
            "cardholder_info.prior_authentication_info.method",
        ];
        names.contains(&path)
    }

    #[test]
    fn every_attribute_of_a_request_has_a_format_rule() {
        let paths = elements::all_mappings().map(|it| it.path);
        let paths = paths.filter(|it| !it.is_empty() && !it.starts_with("device_info."));
        for path in paths.filter(|it| !has_listed_values(it)) {
            assert_ne!(format_rule(path), GENERAL, "{path}");
        }
        for (path, _) in FORMAT_RULES {
            assert!(elements::all_mappings().any(|it| it.path == *path), "{path} has no element");
        }
    }
}
