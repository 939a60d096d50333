//! Rules 37 to 39: what EMV asks for beyond the interface.

use super::{REQUIRED, Rule, Situation, is_missing, required_attribute, rule};
use crate::{
    code::ChallengePreference,
    format::Version,
    request::{Address, PhoneNumber},
};

const BOTH_PARTS: &str = "needs country_code and number";
const VERSION: &str = "needs version 2.2.0, which this card does not have";

fn is_half(phone: Option<&PhoneNumber>) -> bool {
    phone.is_some_and(|it| is_missing(it.country_code.as_ref()) || is_missing(it.number.as_ref()))
}

fn is_stateless(address: Option<&Address>) -> bool {
    address.is_some_and(|it| {
        !is_missing(it.state_code.as_ref()) && is_missing(it.country_code.as_ref())
    })
}

macro_rules! holder {
    ($name:ident, $broken:ident, $message:expr, $path:expr) => {
        rule(38, $path, $message, |it| {
            let holder = it.request.cardholder_info.as_ref();
            $broken(holder.and_then(|it| it.$name.as_ref()))
        })
    };
}

/// What a device must have told, on one kind of device.
macro_rules! device {
    ($on:expr, $name:ident) => {
        rule(38, concat!("device_info.", stringify!($name)), REQUIRED, |it| {
            $on(it) && it.device_info.$name.is_none()
        })
    };
}

fn new_browser(it: &Situation<'_>) -> bool {
    it.is_browser() && it.version >= Version::V220
}

/// 2.1.0 takes scripts for granted; with 2.2.0 a browser says whether it runs them.
fn scripted(it: &Situation<'_>) -> bool {
    let off = it.device_info.browser_javascript_enabled == Some(false);
    it.is_browser() && (it.version < Version::V220 || !off)
}

pub(super) const RULES: &[Rule] = &[
    rule(37, "purchase_info", REQUIRED, |it| it.wants_purchase_alone() && it.purchase().is_none()),
    required_attribute!(37, purchase_info.amount, Situation::wants_purchase_alone),
    required_attribute!(37, purchase_info.currency, Situation::wants_purchase_alone),
    required_attribute!(37, purchase_info.exponent, Situation::wants_purchase_alone),
    required_attribute!(37, purchase_info.date, Situation::wants_purchase_alone),
    holder!(phone_number, is_half, BOTH_PARTS, "cardholder_info.phone_number"),
    holder!(mobile_phone_number, is_half, BOTH_PARTS, "cardholder_info.mobile_phone_number"),
    holder!(work_phone_number, is_half, BOTH_PARTS, "cardholder_info.work_phone_number"),
    holder!(
        billing_address,
        is_stateless,
        REQUIRED,
        "cardholder_info.billing_address.country_code"
    ),
    holder!(
        shipping_address,
        is_stateless,
        REQUIRED,
        "cardholder_info.shipping_address.country_code"
    ),
    device!(Situation::is_browser, browser_accept_header),
    device!(Situation::is_browser, browser_language),
    device!(Situation::is_browser, browser_user_agent),
    device!(new_browser, browser_javascript_enabled),
    device!(scripted, browser_java_enabled),
    device!(scripted, browser_color_depth),
    device!(scripted, browser_screen_height),
    device!(scripted, browser_screen_width),
    device!(scripted, browser_tz),
    device!(Situation::is_app, sdk_transaction_id),
    device!(Situation::is_app, sdk_application_id),
    device!(Situation::is_app, sdk_encryption_data),
    device!(Situation::is_app, sdk_ephemeral_public_key),
    device!(Situation::is_app, sdk_max_timeout),
    device!(Situation::is_app, sdk_reference_number),
    device!(Situation::is_app, sdk_render_options),
    rule(39, "authentication_category", VERSION, |it| {
        it.is_merchant() && it.is_payment() && it.version < Version::V220
    }),
    rule(39, "authentication_type", VERSION, |it| {
        let kind = it.kind().filter(|_| it.is_merchant()).and_then(|it| it.of_merchant());
        it.version < Version::V220 && kind.is_some_and(|it| !it.is_of_2_1_0())
    }),
    rule(39, "challenge_preference", VERSION, |it| {
        let name = it.request.challenge_preference.as_deref();
        let preference = name.and_then(ChallengePreference::from_name);
        it.version < Version::V220 && preference.is_some_and(|it| !it.is_of_2_1_0())
    }),
];
