//! Rules 37 to 39: requirements of EMV in addition to those of the API.

use super::rule::{
    COUNTRY_OF_STATE_REQUIRED, MERCHANT_PURCHASE_REQUIRED, REQUIRED, RequestRule, is_missing,
    required_attribute, rule,
};
use crate::{
    code::ChallengePreference,
    format::Version,
    request::{Address, AuthenticateContext, PhoneNumber},
};

const BOTH_PARTS: &str = "requires both country_code and number";
const VERSION: &str = "requires version 2.2.0, which this card does not support";

fn is_incomplete_phone(phone: Option<&PhoneNumber>) -> bool {
    phone.is_some_and(|it| is_missing(it.country_code.as_ref()) || is_missing(it.number.as_ref()))
}

fn lacks_country_of_state(address: Option<&Address>) -> bool {
    address.is_some_and(|it| {
        !is_missing(it.state_code.as_ref()) && is_missing(it.country_code.as_ref())
    })
}

macro_rules! cardholder {
    ($name:ident, $broken:ident, $message:expr, $path:expr) => {
        rule(38, $path, $message, |it| {
            let holder = it.request.cardholder_info.as_ref();
            $broken(holder.and_then(|it| it.$name.as_ref()))
        })
    };
}

/// An attribute that one kind of device must report.
macro_rules! device {
    ($on:expr, $name:ident) => {
        rule(38, concat!("device_info.", stringify!($name)), REQUIRED, |it| {
            $on(it) && it.device_info.$name.is_none()
        })
    };
}

fn is_browser_since_220(it: &AuthenticateContext<'_>) -> bool {
    it.is_browser() && it.version >= Version::V220
}

/// 2.1.0 assumes that scripts are enabled; since 2.2.0 a browser reports it.
fn has_scripts(it: &AuthenticateContext<'_>) -> bool {
    let scripts_disabled = it.device_info.browser_javascript_enabled == Some(false);
    it.is_browser() && (it.version < Version::V220 || !scripts_disabled)
}

pub(super) const RULES: &[RequestRule] = &[
    rule(37, "purchase_info", MERCHANT_PURCHASE_REQUIRED, |it| {
        it.requires_merchant_purchase() && it.purchase().is_none()
    }),
    required_attribute!(
        37,
        purchase_info.amount,
        AuthenticateContext::requires_merchant_purchase,
        MERCHANT_PURCHASE_REQUIRED
    ),
    required_attribute!(
        37,
        purchase_info.currency,
        AuthenticateContext::requires_merchant_purchase,
        MERCHANT_PURCHASE_REQUIRED
    ),
    required_attribute!(
        37,
        purchase_info.exponent,
        AuthenticateContext::requires_merchant_purchase,
        MERCHANT_PURCHASE_REQUIRED
    ),
    required_attribute!(
        37,
        purchase_info.date,
        AuthenticateContext::requires_merchant_purchase,
        MERCHANT_PURCHASE_REQUIRED
    ),
    cardholder!(phone_number, is_incomplete_phone, BOTH_PARTS, "cardholder_info.phone_number"),
    cardholder!(
        mobile_phone_number,
        is_incomplete_phone,
        BOTH_PARTS,
        "cardholder_info.mobile_phone_number"
    ),
    cardholder!(
        work_phone_number,
        is_incomplete_phone,
        BOTH_PARTS,
        "cardholder_info.work_phone_number"
    ),
    cardholder!(
        billing_address,
        lacks_country_of_state,
        COUNTRY_OF_STATE_REQUIRED,
        "cardholder_info.billing_address.country_code"
    ),
    cardholder!(
        shipping_address,
        lacks_country_of_state,
        COUNTRY_OF_STATE_REQUIRED,
        "cardholder_info.shipping_address.country_code"
    ),
    device!(AuthenticateContext::is_browser, browser_accept_header),
    device!(AuthenticateContext::is_browser, browser_language),
    device!(AuthenticateContext::is_browser, browser_user_agent),
    device!(is_browser_since_220, browser_javascript_enabled),
    device!(has_scripts, browser_java_enabled),
    device!(has_scripts, browser_color_depth),
    device!(has_scripts, browser_screen_height),
    device!(has_scripts, browser_screen_width),
    device!(has_scripts, browser_tz),
    device!(AuthenticateContext::is_app, sdk_transaction_id),
    device!(AuthenticateContext::is_app, sdk_application_id),
    device!(AuthenticateContext::is_app, sdk_encryption_data),
    device!(AuthenticateContext::is_app, sdk_ephemeral_public_key),
    device!(AuthenticateContext::is_app, sdk_max_timeout),
    device!(AuthenticateContext::is_app, sdk_reference_number),
    device!(AuthenticateContext::is_app, sdk_render_options),
    rule(39, "authentication_category", VERSION, |it| {
        it.is_merchant() && it.is_payment() && it.version < Version::V220
    }),
    rule(39, "authentication_type", VERSION, |it| {
        let kind = it
            .authentication_type()
            .filter(|_| it.is_merchant())
            .and_then(|it| it.to_requestor_initiated());
        it.version < Version::V220 && kind.is_some_and(|it| !it.exists_in_2_1_0())
    }),
    rule(39, "challenge_preference", VERSION, |it| {
        let name = it.request.challenge_preference.as_deref();
        let preference = name.and_then(ChallengePreference::from_name);
        it.version < Version::V220 && preference.is_some_and(|it| !it.exists_in_2_1_0())
    }),
];
