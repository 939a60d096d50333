//! The rules for a request as one table, in the order of their numbers.
//!
//! Rules 1 to 3 concern the creation of a session and need the vault. Rule 6 is a default
//! ([`AuthenticateContext::requests_decoupled`]). Rule 36 lists attributes that are *not* required.

mod device;
mod optional;
mod required;

use std::borrow::Cow;

use crate::{
    authentication::AuthenticationParameters,
    code::{
        AuthenticationCategory, AuthenticationType, ChallengePreference, Device, Scheme,
        ThreeDsSessionType,
    },
    format::Version,
    request::{AuthenticateRequest, DeviceInfo, MerchantInfo, PurchaseInfo},
};

/// A violation: the attribute and the rule. Never contains a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub path: Cow<'static, str>,
    pub message: &'static str,
}

/// The inputs of the rules.
#[derive(Debug, Clone, Copy)]
pub struct AuthenticateContext<'a> {
    pub request: &'a AuthenticateRequest,
    pub device_info: &'a DeviceInfo,
    pub session: ThreeDsSessionType,
    pub device: Device,
    pub version: Version,
}

impl<'a> AuthenticateContext<'a> {
    pub(crate) fn category(&self) -> Option<AuthenticationCategory> {
        let name = self.request.authentication_category.as_deref();
        name.and_then(AuthenticationCategory::from_name)
    }

    pub(crate) fn authentication_type(&self) -> Option<AuthenticationType> {
        self.request.authentication_type.as_deref().and_then(AuthenticationType::from_name)
    }

    pub(crate) fn is_payment(&self) -> bool {
        self.category() == Some(AuthenticationCategory::Payment)
    }

    pub(crate) fn is_merchant(&self) -> bool {
        self.session == ThreeDsSessionType::Merchant
    }

    /// Rule 6: merchant sessions request a decoupled challenge by default.
    #[must_use]
    pub fn requests_decoupled(&self) -> bool {
        self.request.request_decoupled_challenge.unwrap_or(self.is_merchant())
    }

    /// The parameters that the interpretation of the outcome depends on. `None` if the category is
    /// invalid. 2.1.0 has no decoupled challenges, even if one is requested.
    #[must_use]
    pub fn authentication_parameters(&self, scheme: Scheme) -> Option<AuthenticationParameters> {
        let preference = self.request.challenge_preference.as_deref();
        let minutes = self.request.decoupled_challenge_max_time;
        let decoupled = self.requests_decoupled() && self.version >= Version::V220;
        let minutes = minutes.filter(|_| decoupled).and_then(|it| u16::try_from(it).ok());
        Some(AuthenticationParameters {
            version: self.version,
            scheme,
            category: self.category()?,
            challenge_preference: preference.and_then(ChallengePreference::from_name),
            decoupled_minutes: minutes,
        })
    }

    /// The condition of rules 9 to 13 and 37: also merchant-initiated types that involve money
    /// without a payment.
    fn requires_purchase(&self) -> bool {
        self.is_payment() || self.is_recurring() || self.is_installment()
    }

    fn is_recurring(&self) -> bool {
        self.authentication_type() == Some(AuthenticationType::RecurringTransaction)
    }

    fn is_installment(&self) -> bool {
        self.authentication_type() == Some(AuthenticationType::InstallmentTransaction)
    }

    fn requires_merchant_purchase(&self) -> bool {
        let kind = self.authentication_type().and_then(AuthenticationType::to_requestor_initiated);
        self.is_merchant() && kind.is_some_and(|it| it.requires_purchase())
    }

    fn purchase(&self) -> Option<&'a PurchaseInfo> {
        self.request.purchase_info.as_ref()
    }

    fn merchant(&self) -> Option<&'a MerchantInfo> {
        self.request.merchant_info.as_ref()
    }

    fn is_browser(&self) -> bool {
        !self.is_merchant() && self.device == Device::Browser
    }

    fn is_app(&self) -> bool {
        !self.is_merchant() && self.device == Device::Mobile
    }
}

/// One rule about one attribute.
#[derive(Debug)]
pub struct RequestRule {
    pub number: u8,
    pub path: &'static str,
    pub message: &'static str,
    is_broken: fn(&AuthenticateContext<'_>) -> bool,
}

impl RequestRule {
    #[must_use]
    pub fn is_broken_in(&self, context: &AuthenticateContext<'_>) -> bool {
        (self.is_broken)(context)
    }
}

const fn rule(
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

use required_attribute;

const REQUIRED: &str = "is required";
const NOT_AN_ALLOWED_VALUE: &str = "is not an allowed value";
const PURCHASE_REQUIRED: &str =
    "is required for a payment, a recurring-transaction and an installment-transaction";
const MERCHANT_PURCHASE_REQUIRED: &str = "is required by EMV for this authentication_type in a \
                                          merchant session, even if it is not a payment";
const COUNTRY_OF_STATE_REQUIRED: &str =
    "is required by EMV if the address has a state_code, which is a part of a country";

/// Whether a required attribute is missing: its object is absent, or the attribute is absent or
/// empty.
fn is_missing(text: Option<&String>) -> bool {
    text.is_none_or(String::is_empty)
}

/// Whether an attribute is present and invalid. Empty text counts as absent.
fn is_invalid(text: Option<&String>, is_valid: impl Fn(&str) -> bool) -> bool {
    text.is_some_and(|it| !it.is_empty() && !is_valid(it))
}

/// All rules, in order.
pub(crate) fn rules() -> impl Iterator<Item = &'static RequestRule> {
    let optional = optional::FORMAT_RULES.iter().chain(optional::OBJECT_RULES);
    required::RULES.iter().chain(optional).chain(device::RULES)
}

/// All violations. Each attribute is reported once, with the first rule that it violates.
#[must_use]
pub fn violations(context: &AuthenticateContext<'_>) -> Vec<Violation> {
    let mut violations: Vec<Violation> = Vec::new();
    for rule in rules().filter(|it| it.is_broken_in(context)) {
        if !violations.iter().any(|it| it.path == rule.path) {
            violations.push(Violation { path: Cow::Borrowed(rule.path), message: rule.message });
        }
    }
    violations
}
