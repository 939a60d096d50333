//! Who pays: the person, the account, the addresses.

use super::{Element, code, elements, flag, text};
use crate::{
    code::{
        AccountAge, AccountChange, AccountType, LoginMethod, PasswordChange, PaymentAccountAge,
        PriorMethod, ShippingAddressUse, ShippingNameMatch, SuspiciousActivity, YesNo,
    },
    request::{
        Address, CardholderAccount, CardholderAuthentication, CardholderInfo,
        CardholderPriorAuthentication, Question,
    },
};

impl Question<'_> {
    fn holder(&self) -> Option<&CardholderInfo> {
        self.situation.request.cardholder_info.as_ref()
    }

    fn account(&self) -> Option<&CardholderAccount> {
        self.holder()?.account_info.as_ref()
    }

    fn login(&self) -> Option<&CardholderAuthentication> {
        self.holder()?.authentication_info.as_ref()
    }

    fn prior(&self) -> Option<&CardholderPriorAuthentication> {
        self.holder()?.prior_authentication_info.as_ref()
    }

    fn billing(&self) -> Option<&Address> {
        self.holder()?.billing_address.as_ref()
    }

    fn shipping(&self) -> Option<&Address> {
        self.holder()?.shipping_address.as_ref()
    }
}

pub(super) const ELEMENTS: &[Element] = elements! {
    "cardholder_info.name" => "cardholderName": |it| { text(it.holder()?.name.as_ref()) };
    "cardholder_info.email" => "email": |it| { text(it.holder()?.email.as_ref()) };
    "cardholder_info.account_id" => "acctID": |it| { text(it.holder()?.account_id.as_ref()) };
    "cardholder_info.account_type" => "acctType": |it| { code(it.holder()?.account_type.as_ref(), AccountType::from_name, AccountType::code) };
    "cardholder_info.billing_shipping_address_match" => "addrMatch": |it| { let told = it.holder()?.billing_shipping_address_match.as_ref();
        let told = told.filter(|_| !it.situation.is_merchant());
        code(told, YesNo::from_code, |it| it.code().to_owned()) };
    "cardholder_info.phone_number" => "homePhone.cc": |it| { text(it.holder()?.phone_number.as_ref()?.country_code.as_ref()) };
    "cardholder_info.phone_number" => "homePhone.subscriber": |it| { text(it.holder()?.phone_number.as_ref()?.number.as_ref()) };
    "cardholder_info.mobile_phone_number" => "mobilePhone.cc": |it| { text(it.holder()?.mobile_phone_number.as_ref()?.country_code.as_ref()) };
    "cardholder_info.mobile_phone_number" => "mobilePhone.subscriber": |it| { text(it.holder()?.mobile_phone_number.as_ref()?.number.as_ref()) };
    "cardholder_info.work_phone_number" => "workPhone.cc": |it| { text(it.holder()?.work_phone_number.as_ref()?.country_code.as_ref()) };
    "cardholder_info.work_phone_number" => "workPhone.subscriber": |it| { text(it.holder()?.work_phone_number.as_ref()?.number.as_ref()) };
    "cardholder_info.account_info.account_age" => "acctInfo.chAccAgeInd": |it| { code(it.account()?.account_age.as_ref(), AccountAge::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_last_changed" => "acctInfo.chAccChangeInd": |it| { code(it.account()?.account_last_changed.as_ref(), AccountChange::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_change_date" => "acctInfo.chAccChange": |it| { text(it.account()?.account_change_date.as_ref()) };
    "cardholder_info.account_info.account_created_date" => "acctInfo.chAccDate": |it| { text(it.account()?.account_created_date.as_ref()) };
    "cardholder_info.account_info.account_pwd_last_changed" => "acctInfo.chAccPwChangeInd": |it| { code(it.account()?.account_pwd_last_changed.as_ref(), PasswordChange::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_pwd_change_date" => "acctInfo.chAccPwChange": |it| { text(it.account()?.account_pwd_change_date.as_ref()) };
    "cardholder_info.account_info.purchase_count_half_year" => "acctInfo.nbPurchaseAccount": |it| { text(it.account()?.purchase_count_half_year.as_ref()) };
    "cardholder_info.account_info.transaction_count_day" => "acctInfo.txnActivityDay": |it| { text(it.account()?.transaction_count_day.as_ref()) };
    "cardholder_info.account_info.transaction_count_year" => "acctInfo.txnActivityYear": |it| { text(it.account()?.transaction_count_year.as_ref()) };
    "cardholder_info.account_info.payment_account_age" => "acctInfo.paymentAccAge": |it| { text(it.account()?.payment_account_age.as_ref()) };
    "cardholder_info.account_info.payment_account_created" => "acctInfo.paymentAccInd": |it| { code(it.account()?.payment_account_created.as_ref(), PaymentAccountAge::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.shipping_address_usage_date" => "acctInfo.shipAddressUsage": |it| { text(it.account()?.shipping_address_usage_date.as_ref()) };
    "cardholder_info.account_info.shipping_address_first_used" => "acctInfo.shipAddressUsageInd": |it| { code(it.account()?.shipping_address_first_used.as_ref(), ShippingAddressUse::from_request, |it| it.code().to_owned()) };
    "cardholder_info.account_info.shipping_account_name_match" => "acctInfo.shipNameIndicator": |it| { flag(it.account()?.shipping_account_name_match, ShippingNameMatch::code) };
    "cardholder_info.account_info.suspicious_activity_observed" => "acctInfo.suspiciousAccActivity": |it| { flag(it.account()?.suspicious_activity_observed, SuspiciousActivity::code) };
    "cardholder_info.authentication_info.method" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthMethod": |it| { code(it.login()?.method.as_ref(), LoginMethod::from_name, LoginMethod::code) };
    "cardholder_info.authentication_info.timestamp" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthTimestamp": |it| { text(it.login()?.timestamp.as_ref()) };
    "cardholder_info.authentication_info.data" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthData": |it| { text(it.login()?.data.as_ref()) };
    "cardholder_info.prior_authentication_info.method" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthMethod": |it| { code(it.prior()?.method.as_ref(), PriorMethod::from_name, PriorMethod::code) };
    "cardholder_info.prior_authentication_info.timestamp" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthTimestamp": |it| { text(it.prior()?.timestamp.as_ref()) };
    "cardholder_info.prior_authentication_info.reference_id" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef": |it| { text(it.prior()?.reference_id.as_ref()) };
    "cardholder_info.prior_authentication_info.data" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthData": |it| { text(it.prior()?.data.as_ref()) };
};

pub(super) const ADDRESSES: &[Element] = elements! {
    "cardholder_info.billing_address.line1" => "billAddrLine1": |it| { text(it.billing()?.line1.as_ref()) };
    "cardholder_info.billing_address.line2" => "billAddrLine2": |it| { text(it.billing()?.line2.as_ref()) };
    "cardholder_info.billing_address.line3" => "billAddrLine3": |it| { text(it.billing()?.line3.as_ref()) };
    "cardholder_info.billing_address.postal_code" => "billAddrPostCode": |it| { text(it.billing()?.postal_code.as_ref()) };
    "cardholder_info.billing_address.city" => "billAddrCity": |it| { text(it.billing()?.city.as_ref()) };
    "cardholder_info.billing_address.state_code" => "billAddrState": |it| { text(it.billing()?.state_code.as_ref()) };
    "cardholder_info.billing_address.country_code" => "billAddrCountry": |it| { text(it.billing()?.country_code.as_ref()) };
    "cardholder_info.shipping_address.line1" => "shipAddrLine1": |it| { text(it.shipping()?.line1.as_ref()) };
    "cardholder_info.shipping_address.line2" => "shipAddrLine2": |it| { text(it.shipping()?.line2.as_ref()) };
    "cardholder_info.shipping_address.line3" => "shipAddrLine3": |it| { text(it.shipping()?.line3.as_ref()) };
    "cardholder_info.shipping_address.postal_code" => "shipAddrPostCode": |it| { text(it.shipping()?.postal_code.as_ref()) };
    "cardholder_info.shipping_address.city" => "shipAddrCity": |it| { text(it.shipping()?.city.as_ref()) };
    "cardholder_info.shipping_address.state_code" => "shipAddrState": |it| { text(it.shipping()?.state_code.as_ref()) };
    "cardholder_info.shipping_address.country_code" => "shipAddrCountry": |it| { text(it.shipping()?.country_code.as_ref()) };
};
