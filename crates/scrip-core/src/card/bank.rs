//! Bank account data.

use serde_json::Value;

use crate::{FieldError, card::fields::check_required};

/// The details of a bank account in a response, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankDetails {
    pub routing_number: String,
    /// Absent when four digits would be the whole number.
    pub account_number_last4: Option<String>,
}

/// Errors: the text does not have nine digits, or the checksum is not valid.
pub(crate) fn check_routing_number(text: &str) -> Result<(), &'static str> {
    let digits = <[u8; 9]>::try_from(text.as_bytes()).ok();
    let Some(digits) = digits.filter(|it| it.iter().all(u8::is_ascii_digit)) else {
        return Err("must be nine digits");
    };
    // 3, 7 and 1 are coprime to 10, so a change of any single digit changes the sum modulo 10.
    let weights = [3, 7, 1].into_iter().cycle();
    let sum: u32 =
        digits.iter().zip(weights).map(|(digit, weight)| u32::from(digit - b'0') * weight).sum();
    if sum.is_multiple_of(10) { Ok(()) } else { Err("is not a routing number: its checksum fails") }
}

/// Errors: the number of digits is wrong.
pub(crate) fn check_account_number(text: &str, digits_min: usize) -> Result<(), &'static str> {
    let has_only_digits = text.bytes().all(|it| it.is_ascii_digit());
    if has_only_digits && (digits_min..=17).contains(&text.len()) {
        return Ok(());
    }
    Err(if digits_min == 1 { "must be 1 to 17 digits" } else { "must be 3 to 17 digits" })
}

pub(crate) const DATA_ATTRIBUTES: &[&str] = &["routing_number", "account_number"];

/// Validates the data of a `bank` token. Unknown attributes are dropped.
pub(crate) fn check_bank(data: &mut Value) -> Result<(), Vec<FieldError>> {
    let Value::Object(object) = data else {
        return Err(vec![FieldError::new("data", "must be an object")]);
    };
    object.retain(|name, value| DATA_ATTRIBUTES.contains(&name.as_str()) && !value.is_null());
    let errors: Vec<_> = [
        check_required(object, "routing_number", "data.routing_number", check_routing_number),
        check_required(object, "account_number", "data.account_number", |it| {
            check_account_number(it, 1)
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

pub(crate) fn bank_details(data: &Value) -> Option<BankDetails> {
    let routing_number = data.get("routing_number")?.as_str()?.to_owned();
    let account = data.get("account_number")?.as_str()?;
    let hidden_len = account.len().checked_sub(4).filter(|it| *it > 0);
    let account_number_last4 = hidden_len.and_then(|it| account.get(it..)).map(str::to_owned);
    Some(BankDetails { routing_number, account_number_last4 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_valid: bool) {
        assert_eq!(check_routing_number(text).is_ok(), is_valid, "routing number {text:?}");
    }

    #[test]
    fn routing_number_needs_nine_digits_and_a_valid_checksum() {
        check("021000021", true);
        check("021000022", false);
        check("02100002", false);
        check("02100002a", false);
        check("021 000021", false);
        check("٠٢١٠٠٠٠٢١", false);
    }

    #[test]
    fn account_number_needs_digits_within_length_limits() {
        assert!(check_account_number("1", 1).is_ok());
        assert!(check_account_number("12", 3).is_err());
        assert!(check_account_number(&"1".repeat(17), 3).is_ok());
        assert!(check_account_number(&"1".repeat(18), 1).is_err());
        assert!(check_account_number("12-3", 1).is_err());
        assert!(check_account_number("", 1).is_err());
    }
}
