//! Rules 31 to 35: what must be right if it is there.

use super::{DATE, DIGITS, MOMENT, Rule, Situation, UNKNOWN, is_wrong, rule};
use crate::{
    code::{
        AccountAge, AccountChange, AccountType, CHANGE_WITHOUT_CODE, DeliveryTimeFrame,
        LoginMethod, PasswordChange, PaymentAccountAge, PriorMethod, SHIPPING_WITHOUT_CODE,
        ShippingAddressUse, ShippingMethod, YesNo,
    },
    format::{Checked, Day, Digits, Minute, Rule as Format},
    request::{
        CardholderAccount, CardholderAuthentication, CardholderInfo, CardholderPriorAuthentication,
        MessageExtension, RiskInfo, elements::extension_data,
    },
};

fn is<R: Format>(text: &str) -> bool {
    Checked::<R>::parse(text).is_ok()
}

fn is_day(text: &str) -> bool {
    Day::parse(text).is_ok()
}

fn is_minute(text: &str) -> bool {
    Minute::parse(text).is_ok()
}

fn three_digits(text: &str) -> bool {
    Digits::<3, 3>::parse(text).is_ok()
}

fn risk<'a>(it: &Situation<'a>) -> Option<&'a RiskInfo> {
    it.merchant()?.risk_info.as_ref()
}

fn holder<'a>(it: &Situation<'a>) -> Option<&'a CardholderInfo> {
    it.request.cardholder_info.as_ref()
}

fn account<'a>(it: &Situation<'a>) -> Option<&'a CardholderAccount> {
    holder(it)?.account_info.as_ref()
}

fn login<'a>(it: &Situation<'a>) -> Option<&'a CardholderAuthentication> {
    holder(it)?.authentication_info.as_ref()
}

fn prior<'a>(it: &Situation<'a>) -> Option<&'a CardholderPriorAuthentication> {
    holder(it)?.prior_authentication_info.as_ref()
}

fn extensions<'a>(it: &Situation<'a>) -> &'a [MessageExtension] {
    it.request.message_extensions.as_deref().unwrap_or_default()
}

/// `number, path: object.attribute, what is said, what fits`.
macro_rules! rules {
    ($($number:literal $path:literal: $object:ident $name:ident, $message:expr, $fits:expr;)*) => {
        &[$(rule($number, $path, $message, |it| {
            $object(it).is_some_and(|of| is_wrong(of.$name.as_ref(), $fits))
        }),)*]
    };
}

pub(super) const TYPED: &[Rule] = rules! {
    31 "merchant_info.risk_info.delivery_time_frame": risk delivery_time_frame,
        UNKNOWN, |it| DeliveryTimeFrame::from_name(it).is_some();
    31 "merchant_info.risk_info.shipping_method": risk shipping_method,
        UNKNOWN, |it| ShippingMethod::from_name(it).is_some();
    31 "merchant_info.risk_info.pre_order_date": risk pre_order_date, DATE, is_day;
    31 "merchant_info.risk_info.gift_card_currency": risk gift_card_currency, DIGITS, three_digits;
    31 "merchant_info.risk_info.gift_card_amount": risk gift_card_amount, DIGITS,
        is::<crate::format::DigitsRule<1, 15>>;
    32 "cardholder_info.account_type": holder account_type,
        UNKNOWN, |it| matches!(it, "debit" | "credit") && AccountType::from_name(it).is_some();
    32 "cardholder_info.billing_shipping_address_match": holder billing_shipping_address_match,
        UNKNOWN, |it| YesNo::from_code(it).is_some();
    33 "cardholder_info.account_info.account_age": account account_age,
        UNKNOWN, |it| AccountAge::from_name(it).is_some();
    33 "cardholder_info.account_info.account_last_changed": account account_last_changed,
        UNKNOWN, |it| CHANGE_WITHOUT_CODE.contains(&it) || AccountChange::from_name(it).is_some();
    33 "cardholder_info.account_info.account_change_date": account account_change_date, DATE, is_day;
    33 "cardholder_info.account_info.account_created_date": account account_created_date, DATE, is_day;
    33 "cardholder_info.account_info.account_pwd_last_changed": account account_pwd_last_changed,
        UNKNOWN, |it| PasswordChange::from_name(it).is_some();
    33 "cardholder_info.account_info.account_pwd_change_date": account account_pwd_change_date,
        DATE, is_day;
    33 "cardholder_info.account_info.payment_account_age": account payment_account_age, DATE, is_day;
    33 "cardholder_info.account_info.payment_account_created": account payment_account_created,
        UNKNOWN, |it| PaymentAccountAge::from_name(it).is_some();
    33 "cardholder_info.account_info.shipping_address_first_used": account shipping_address_first_used,
        UNKNOWN, |it| {
            SHIPPING_WITHOUT_CODE.contains(&it) || ShippingAddressUse::from_request(it).is_some()
        };
    33 "cardholder_info.account_info.shipping_address_usage_date": account shipping_address_usage_date,
        DATE, is_day;
    34 "cardholder_info.authentication_info.method": login method,
        UNKNOWN, |it| LoginMethod::from_name(it).is_some();
    34 "cardholder_info.authentication_info.timestamp": login timestamp, MOMENT, is_minute;
    34 "cardholder_info.prior_authentication_info.method": prior method,
        UNKNOWN, |it| PriorMethod::from_name(it).is_some();
    34 "cardholder_info.prior_authentication_info.timestamp": prior timestamp, MOMENT, is_minute;
};

/// Countries of both addresses, and what is no text.
pub(super) const SHAPED: &[Rule] = &[
    rule(32, "cardholder_info.billing_address.country_code", DIGITS, |it| {
        let address = holder(it).and_then(|it| it.billing_address.as_ref());
        address.is_some_and(|of| is_wrong(of.country_code.as_ref(), three_digits))
    }),
    rule(32, "cardholder_info.shipping_address.country_code", DIGITS, |it| {
        let address = holder(it).and_then(|it| it.shipping_address.as_ref());
        address.is_some_and(|of| is_wrong(of.country_code.as_ref(), three_digits))
    }),
    rule(35, "message_extensions", "needs id, name, critical and data (an object) in each", |it| {
        let whole = |it: &MessageExtension| {
            let named = it.id.is_some() && it.name.is_some() && it.critical.is_some();
            named && extension_data(it).is_some()
        };
        !extensions(it).iter().all(whole)
    }),
    rule(35, "broadcast_info", "is not an object", |it| {
        it.request.broadcast_info.as_ref().is_some_and(|it| !it.is_object())
    }),
];
