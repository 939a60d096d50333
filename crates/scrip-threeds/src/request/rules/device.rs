//! Rules 37 to 39: what EMV asks for beyond the interface.

use super::{REQUIRED, Rule, Situation, is_missing};
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

/// A purchase's attribute, for merchants' kinds that are about money without being payments.
macro_rules! alone {
    ($name:ident) => {
        Rule {
            number: 37,
            path: concat!("purchase_info.", stringify!($name)),
            message: REQUIRED,
            is_broken: |it| {
                let missing = it.purchase().is_some_and(|of| is_missing(of.$name.as_ref()));
                it.wants_purchase_alone() && missing
            },
        }
    };
}

macro_rules! holder {
    ($name:ident, $broken:ident, $message:expr, $path:expr) => {
        Rule {
            number: 38,
            path: $path,
            message: $message,
            is_broken: |it| {
                let holder = it.request.cardholder_info.as_ref();
                $broken(holder.and_then(|it| it.$name.as_ref()))
            },
        }
    };
}

/// What a device must have told, on one kind of device.
macro_rules! device {
    ($on:ident, $name:ident) => {
        Rule {
            number: 38,
            path: concat!("device_info.", stringify!($name)),
            message: REQUIRED,
            is_broken: |it| $on(it) && it.device_info.$name.is_none(),
        }
    };
}

fn browser(it: &Situation<'_>) -> bool {
    it.is_browser()
}

fn new_browser(it: &Situation<'_>) -> bool {
    it.is_browser() && it.version >= Version::V220
}

/// 2.1.0 takes scripts for granted; with 2.2.0 a browser says whether it runs them.
fn scripted(it: &Situation<'_>) -> bool {
    let off = it.device_info.browser_javascript_enabled == Some(false);
    it.is_browser() && (it.version < Version::V220 || !off)
}

fn app(it: &Situation<'_>) -> bool {
    it.is_app()
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        number: 37,
        path: "purchase_info",
        message: REQUIRED,
        is_broken: |it| it.wants_purchase_alone() && it.purchase().is_none(),
    },
    alone!(amount),
    alone!(currency),
    alone!(exponent),
    alone!(date),
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
    device!(browser, browser_accept_header),
    device!(browser, browser_language),
    device!(browser, browser_user_agent),
    device!(new_browser, browser_javascript_enabled),
    device!(scripted, browser_java_enabled),
    device!(scripted, browser_color_depth),
    device!(scripted, browser_screen_height),
    device!(scripted, browser_screen_width),
    device!(scripted, browser_tz),
    device!(app, sdk_transaction_id),
    device!(app, sdk_application_id),
    device!(app, sdk_encryption_data),
    device!(app, sdk_ephemeral_public_key),
    device!(app, sdk_max_timeout),
    device!(app, sdk_reference_number),
    device!(app, sdk_render_options),
    Rule {
        number: 39,
        path: "authentication_category",
        message: VERSION,
        is_broken: |it| it.is_merchant() && it.is_payment() && it.version < Version::V220,
    },
    Rule {
        number: 39,
        path: "authentication_type",
        message: VERSION,
        is_broken: |it| {
            let kind = it.kind().filter(|_| it.is_merchant()).and_then(|it| it.of_merchant());
            it.version < Version::V220 && kind.is_some_and(|it| !it.is_of_2_1_0())
        },
    },
    Rule {
        number: 39,
        path: "challenge_preference",
        message: VERSION,
        is_broken: |it| {
            let name = it.request.challenge_preference.as_deref();
            let preference = name.and_then(ChallengePreference::from_name);
            it.version < Version::V220 && preference.is_some_and(|it| !it.is_of_2_1_0())
        },
    },
];
