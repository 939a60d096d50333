//! Rules 31 to 35: attributes that must be valid if present.

use super::rule::{NOT_AN_ALLOWED_VALUE, RequestRule, is_invalid, rule};
use crate::{
    code::{
        AccountAge, AccountChange, AccountType, CHANGE_WITHOUT_CODE, DeliveryTimeFrame,
        LoginMethod, PasswordChange, PaymentAccountAge, PriorMethod, SHIPPING_WITHOUT_CODE,
        ShippingAddressUse, ShippingMethod, YesNo,
    },
    format::{CheckedText, DateTimeMinutes, Day, Digits, FormatRule as Format},
    request::{
        AuthenticateContext, CardholderAccount, CardholderAuthentication, CardholderInfo,
        CardholderPriorAuthentication, MessageExtension, RiskInfo,
        elements::extension_data,
        format_rules::{COUNTRY, CURRENCY, DAY, GIFT_CARD_AMOUNT, MINUTE},
    },
};

fn matches_format<R: Format>(text: &str) -> bool {
    CheckedText::<R>::parse(text).is_ok()
}

fn is_day(text: &str) -> bool {
    Day::parse(text).is_ok()
}

fn is_minute(text: &str) -> bool {
    DateTimeMinutes::parse(text).is_ok()
}

fn is_three_digits(text: &str) -> bool {
    Digits::<3, 3>::parse(text).is_ok()
}

fn risk<'a>(it: &AuthenticateContext<'a>) -> Option<&'a RiskInfo> {
    it.merchant()?.risk_info.as_ref()
}

fn cardholder<'a>(it: &AuthenticateContext<'a>) -> Option<&'a CardholderInfo> {
    it.request.cardholder_info.as_ref()
}

fn account<'a>(it: &AuthenticateContext<'a>) -> Option<&'a CardholderAccount> {
    cardholder(it)?.account_info.as_ref()
}

fn login<'a>(it: &AuthenticateContext<'a>) -> Option<&'a CardholderAuthentication> {
    cardholder(it)?.authentication_info.as_ref()
}

fn prior_authentication<'a>(
    it: &AuthenticateContext<'a>,
) -> Option<&'a CardholderPriorAuthentication> {
    cardholder(it)?.prior_authentication_info.as_ref()
}

fn extensions<'a>(it: &AuthenticateContext<'a>) -> &'a [MessageExtension] {
    it.request.message_extensions.as_deref().unwrap_or_default()
}

/// `number, path: object.attribute, message, valid values`.
macro_rules! rules {
    ($($number:literal $path:literal: $object:ident $name:ident, $message:expr, $fits:expr;)*) => {
        &[$(rule($number, $path, $message, |it| {
            $object(it).is_some_and(|parent| is_invalid(parent.$name.as_ref(), $fits))
        }),)*]
    };
}

pub(super) const FORMAT_RULES: &[RequestRule] = rules! {
    31 "merchant_info.risk_info.delivery_time_frame": risk delivery_time_frame,
        NOT_AN_ALLOWED_VALUE, |it| DeliveryTimeFrame::from_name(it).is_some();
    31 "merchant_info.risk_info.shipping_method": risk shipping_method,
        NOT_AN_ALLOWED_VALUE, |it| ShippingMethod::from_name(it).is_some();
    31 "merchant_info.risk_info.pre_order_date": risk pre_order_date, DAY, is_day;
    31 "merchant_info.risk_info.gift_card_currency": risk gift_card_currency, CURRENCY, is_three_digits;
    31 "merchant_info.risk_info.gift_card_amount": risk gift_card_amount, GIFT_CARD_AMOUNT,
        matches_format::<crate::format::DigitsRule<1, 15>>;
    32 "cardholder_info.account_type": cardholder account_type,
        NOT_AN_ALLOWED_VALUE, |it| matches!(it, "debit" | "credit") && AccountType::from_name(it).is_some();
    32 "cardholder_info.billing_shipping_address_match": cardholder billing_shipping_address_match,
        NOT_AN_ALLOWED_VALUE, |it| YesNo::from_code(it).is_some();
    33 "cardholder_info.account_info.account_age": account account_age,
        NOT_AN_ALLOWED_VALUE, |it| AccountAge::from_name(it).is_some();
    33 "cardholder_info.account_info.account_last_changed": account account_last_changed,
        NOT_AN_ALLOWED_VALUE, |it| CHANGE_WITHOUT_CODE.contains(&it) || AccountChange::from_name(it).is_some();
    33 "cardholder_info.account_info.account_change_date": account account_change_date, DAY, is_day;
    33 "cardholder_info.account_info.account_created_date": account account_created_date, DAY, is_day;
    33 "cardholder_info.account_info.account_pwd_last_changed": account account_pwd_last_changed,
        NOT_AN_ALLOWED_VALUE, |it| PasswordChange::from_name(it).is_some();
    33 "cardholder_info.account_info.account_pwd_change_date": account account_pwd_change_date,
        DAY, is_day;
    33 "cardholder_info.account_info.payment_account_age": account payment_account_age, DAY, is_day;
    33 "cardholder_info.account_info.payment_account_created": account payment_account_created,
        NOT_AN_ALLOWED_VALUE, |it| PaymentAccountAge::from_name(it).is_some();
    33 "cardholder_info.account_info.shipping_address_first_used": account shipping_address_first_used,
        NOT_AN_ALLOWED_VALUE, |it| {
            SHIPPING_WITHOUT_CODE.contains(&it) || ShippingAddressUse::from_request(it).is_some()
        };
    33 "cardholder_info.account_info.shipping_address_usage_date": account shipping_address_usage_date,
        DAY, is_day;
    34 "cardholder_info.authentication_info.method": login method,
        NOT_AN_ALLOWED_VALUE, |it| LoginMethod::from_name(it).is_some();
    34 "cardholder_info.authentication_info.timestamp": login timestamp, MINUTE, is_minute;
    34 "cardholder_info.prior_authentication_info.method": prior_authentication method,
        NOT_AN_ALLOWED_VALUE, |it| PriorMethod::from_name(it).is_some();
    34 "cardholder_info.prior_authentication_info.timestamp": prior_authentication timestamp, MINUTE, is_minute;
};

/// Countries of both addresses, and attributes that are not text.
pub(super) const OBJECT_RULES: &[RequestRule] = &[
    rule(32, "cardholder_info.billing_address.country_code", COUNTRY, |it| {
        let address = cardholder(it).and_then(|it| it.billing_address.as_ref());
        address.is_some_and(|parent| is_invalid(parent.country_code.as_ref(), is_three_digits))
    }),
    rule(32, "cardholder_info.shipping_address.country_code", COUNTRY, |it| {
        let address = cardholder(it).and_then(|it| it.shipping_address.as_ref());
        address.is_some_and(|parent| is_invalid(parent.country_code.as_ref(), is_three_digits))
    }),
    rule(
        35,
        "message_extensions",
        "requires id, name, critical and data (an object or text) in each",
        |it| {
            let is_complete = |it: &MessageExtension| {
                let has_attributes = it.id.is_some() && it.name.is_some() && it.critical.is_some();
                has_attributes && extension_data(it).is_some()
            };
            !extensions(it).iter().all(is_complete)
        },
    ),
    rule(35, "broadcast_info", "must be an object", |it| {
        it.request.broadcast_info.as_ref().is_some_and(|it| !it.is_object())
    }),
];
