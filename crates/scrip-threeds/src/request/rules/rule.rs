//! One rule, its violation, and the conditions and messages that rules share.

use crate::request::AuthenticateContext;

/// One rule about one attribute.
#[derive(Debug)]
pub struct RequestRule {
    pub number: u8,
    pub path: &'static str,
    pub message: &'static str,
    is_broken: fn(&AuthenticateContext<'_>) -> bool,
}

impl RequestRule {
    pub fn is_broken_in(&self, context: &AuthenticateContext<'_>) -> bool {
        (self.is_broken)(context)
    }
}

pub(super) const fn rule(
    number: u8,
    path: &'static str,
    message: &'static str,
    is_broken: fn(&AuthenticateContext<'_>) -> bool,
) -> RequestRule {
    RequestRule { number, path, message, is_broken }
}

/// An attribute that is required if its object is present and the condition is true.
macro_rules! required_attribute {
    ($number:literal, $object:ident.$name:ident, $condition:expr) => {
        required_attribute!($number, $object.$name, $condition, REQUIRED)
    };
    ($number:literal, $object:ident.$name:ident, $condition:expr, $message:expr) => {
        rule($number, concat!(stringify!($object), ".", stringify!($name)), $message, |it| {
            let object = it.request.$object.as_ref();
            $condition(it) && object.is_some_and(|parent| is_missing(parent.$name.as_ref()))
        })
    };
}

pub(super) use required_attribute;

pub(super) const REQUIRED: &str = "is required";
pub(super) const NOT_AN_ALLOWED_VALUE: &str = "is not an allowed value";
pub(super) const PURCHASE_REQUIRED: &str =
    "is required for a payment, a recurring-transaction and an installment-transaction";
pub(super) const MERCHANT_PURCHASE_REQUIRED: &str = "is required by EMV for this authentication_type in a \
                                          merchant session, even if it is not a payment";
pub(super) const COUNTRY_OF_STATE_REQUIRED: &str =
    "is required by EMV if the address has a state_code, which is a part of a country";

/// Whether a required attribute is missing: its object is absent, or the attribute is absent or
/// empty.
pub(super) fn is_missing(text: Option<&String>) -> bool {
    text.is_none_or(String::is_empty)
}

/// Whether an attribute is present and invalid. Empty text counts as absent.
pub(super) fn is_invalid(text: Option<&String>, is_valid: impl Fn(&str) -> bool) -> bool {
    text.is_some_and(|it| !it.is_empty() && !is_valid(it))
}
