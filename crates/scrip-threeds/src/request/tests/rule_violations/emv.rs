//! Rules 37 to 39.

use super::*;

#[rustfmt::skip]
pub(super) const CASES: &[RuleCase] = &[
    (37, "purchase_info", merchant_mail_order, |it| it.request.purchase_info = None,
     |it| { it.request.purchase_info = None; it.request.authentication_type = some("add-card"); }),
    (37, "purchase_info.amount", merchant_mail_order, |it| it.purchase().amount = None, |_| ()),
    (37, "purchase_info.currency", merchant_mail_order, |it| it.purchase().currency = None, |_| ()),
    (37, "purchase_info.exponent", merchant_mail_order, |it| it.purchase().exponent = None, |_| ()),
    (37, "purchase_info.date", merchant_mail_order, |it| it.purchase().date = None, |_| ()),
    (38, "cardholder_info.phone_number", customer,
     |it| it.cardholder().phone_number.as_mut().unwrap().country_code = None,
     |it| it.cardholder().phone_number = None),
    (38, "cardholder_info.mobile_phone_number", customer,
     |it| it.cardholder().mobile_phone_number.as_mut().unwrap().number = None, |_| ()),
    (38, "cardholder_info.work_phone_number", customer,
     |it| it.cardholder().work_phone_number = Some(PhoneNumber::default()), |_| ()),
    (38, "cardholder_info.billing_address.country_code", customer,
     |it| it.cardholder().billing_address.as_mut().unwrap().country_code = None,
     |it| { let address = it.cardholder().billing_address.as_mut().unwrap(); (address.state_code, address.country_code) = (None, None); }),
    (38, "cardholder_info.shipping_address.country_code", customer,
     |it| it.cardholder().shipping_address.as_mut().unwrap().country_code = None, |_| ()),
    (38, "device_info.browser_accept_header", customer,
     |it| it.device_info.browser_accept_header = None, |_| ()),
    (38, "device_info.browser_language", customer,
     |it| it.device_info.browser_language = None, |_| ()),
    (38, "device_info.browser_user_agent", customer,
     |it| it.device_info.browser_user_agent = None, |_| ()),
    (38, "device_info.browser_javascript_enabled", customer,
     |it| it.device_info.browser_javascript_enabled = None,
     |it| { it.device_info.browser_javascript_enabled = None; it.version = Version::V210; }),
    (38, "device_info.browser_java_enabled", customer,
     |it| it.device_info.browser_java_enabled = None, disable_scripts),
    (38, "device_info.browser_color_depth", customer,
     |it| it.device_info.browser_color_depth = None, disable_scripts),
    (38, "device_info.browser_screen_height", customer,
     |it| it.device_info.browser_screen_height = None, disable_scripts),
    (38, "device_info.browser_screen_width", customer,
     |it| it.device_info.browser_screen_width = None, disable_scripts),
    (38, "device_info.browser_tz", customer,
     |it| it.device_info.browser_tz = None, disable_scripts),
    (38, "device_info.browser_tz", customer,
     |it| { disable_scripts(it); it.version = Version::V210; }, disable_scripts),
    (38, "device_info.sdk_transaction_id", app,
     |it| it.device_info.sdk_transaction_id = None, |_| ()),
    (38, "device_info.sdk_application_id", app,
     |it| it.device_info.sdk_application_id = None, |_| ()),
    (38, "device_info.sdk_encryption_data", app,
     |it| it.device_info.sdk_encryption_data = None, |_| ()),
    (38, "device_info.sdk_ephemeral_public_key", app,
     |it| it.device_info.sdk_ephemeral_public_key = None, |_| ()),
    (38, "device_info.sdk_max_timeout", app, |it| it.device_info.sdk_max_timeout = None, |_| ()),
    (38, "device_info.sdk_reference_number", app,
     |it| it.device_info.sdk_reference_number = None, |_| ()),
    (38, "device_info.sdk_render_options", app,
     |it| it.device_info.sdk_render_options = None, |_| ()),
    (39, "authentication_category", merchant, |it| it.version = Version::V210,
     |it| { it.version = Version::V210; it.request.authentication_category = some("non-payment"); }),
    (39, "authentication_type", merchant_mail_order, |it| it.version = Version::V210, |_| ()),
    (39, "challenge_preference", customer,
     |it| { it.version = Version::V210; it.request.challenge_preference = some("no-challenge-data-sharing-only"); },
     |it| it.version = Version::V210),
];

/// A merchant's request that involves money but is not a payment.
pub(super) fn merchant_mail_order() -> RequestFixture {
    let mut fixture = merchant();
    fixture.request.authentication_category = some("non-payment");
    fixture.request.authentication_type = some("mail-order");
    fixture
}

fn disable_scripts(it: &mut RequestFixture) {
    it.device_info = DeviceInfo {
        browser_javascript_enabled: Some(false),
        browser_accept_header: some("*/*"),
        browser_language: some("en"),
        browser_user_agent: some("Browser/1.0"),
        ..DeviceInfo::default()
    };
}
