//! The cardholder: person, account and addresses.

use super::mapping::{ElementMapping, code_value, elements, flag_value, text_value};
use crate::{
    code::{
        AccountAge, AccountChange, AccountType, LoginMethod, PasswordChange, PaymentAccountAge,
        PriorMethod, ShippingAddressUse, ShippingNameMatch, SuspiciousActivity, YesNo,
    },
    request::{
        AReqInput, Address, CardholderAccount, CardholderAuthentication, CardholderInfo,
        CardholderPriorAuthentication,
    },
};

impl AReqInput<'_> {
    fn cardholder(&self) -> Option<&CardholderInfo> {
        self.context.request.cardholder_info.as_ref()
    }

    fn account(&self) -> Option<&CardholderAccount> {
        self.cardholder()?.account_info.as_ref()
    }

    fn login(&self) -> Option<&CardholderAuthentication> {
        self.cardholder()?.authentication_info.as_ref()
    }

    fn prior_authentication(&self) -> Option<&CardholderPriorAuthentication> {
        self.cardholder()?.prior_authentication_info.as_ref()
    }

    fn billing_address(&self) -> Option<&Address> {
        self.cardholder()?.billing_address.as_ref()
    }

    fn shipping_address(&self) -> Option<&Address> {
        self.cardholder()?.shipping_address.as_ref()
    }
}

pub(super) const ELEMENTS: &[ElementMapping] = elements! {
    "cardholder_info.name" => "cardholderName": |it| { text_value(it.cardholder()?.name.as_ref()) };
    "cardholder_info.email" => "email": |it| { text_value(it.cardholder()?.email.as_ref()) };
    "cardholder_info.account_id" => "acctID": |it| { text_value(it.cardholder()?.account_id.as_ref()) };
    "cardholder_info.account_type" => "acctType": |it| { code_value(it.cardholder()?.account_type.as_ref(), AccountType::from_name, AccountType::code) };
    "cardholder_info.billing_shipping_address_match" => "addrMatch": |it| { let address_match = it.cardholder()?.billing_shipping_address_match.as_ref();
        let address_match = address_match.filter(|_| !it.context.is_merchant());
        code_value(address_match, YesNo::from_code, |it| it.code().to_owned()) };
    "cardholder_info.phone_number" => "homePhone.cc": |it| { text_value(it.cardholder()?.phone_number.as_ref()?.country_code.as_ref()) };
    "cardholder_info.phone_number" => "homePhone.subscriber": |it| { text_value(it.cardholder()?.phone_number.as_ref()?.number.as_ref()) };
    "cardholder_info.mobile_phone_number" => "mobilePhone.cc": |it| { text_value(it.cardholder()?.mobile_phone_number.as_ref()?.country_code.as_ref()) };
    "cardholder_info.mobile_phone_number" => "mobilePhone.subscriber": |it| { text_value(it.cardholder()?.mobile_phone_number.as_ref()?.number.as_ref()) };
    "cardholder_info.work_phone_number" => "workPhone.cc": |it| { text_value(it.cardholder()?.work_phone_number.as_ref()?.country_code.as_ref()) };
    "cardholder_info.work_phone_number" => "workPhone.subscriber": |it| { text_value(it.cardholder()?.work_phone_number.as_ref()?.number.as_ref()) };
    "cardholder_info.account_info.account_age" => "acctInfo.chAccAgeInd": |it| { code_value(it.account()?.account_age.as_ref(), AccountAge::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_last_changed" => "acctInfo.chAccChangeInd": |it| { code_value(it.account()?.account_last_changed.as_ref(), AccountChange::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_change_date" => "acctInfo.chAccChange": |it| { text_value(it.account()?.account_change_date.as_ref()) };
    "cardholder_info.account_info.account_created_date" => "acctInfo.chAccDate": |it| { text_value(it.account()?.account_created_date.as_ref()) };
    "cardholder_info.account_info.account_pwd_last_changed" => "acctInfo.chAccPwChangeInd": |it| { code_value(it.account()?.account_pwd_last_changed.as_ref(), PasswordChange::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_pwd_change_date" => "acctInfo.chAccPwChange": |it| { text_value(it.account()?.account_pwd_change_date.as_ref()) };
    "cardholder_info.account_info.purchase_count_half_year" => "acctInfo.nbPurchaseAccount": |it| { text_value(it.account()?.purchase_count_half_year.as_ref()) };
    "cardholder_info.account_info.transaction_count_day" => "acctInfo.txnActivityDay": |it| { text_value(it.account()?.transaction_count_day.as_ref()) };
    "cardholder_info.account_info.transaction_count_year" => "acctInfo.txnActivityYear": |it| { text_value(it.account()?.transaction_count_year.as_ref()) };
    "cardholder_info.account_info.payment_account_age" => "acctInfo.paymentAccAge": |it| { text_value(it.account()?.payment_account_age.as_ref()) };
    "cardholder_info.account_info.payment_account_created" => "acctInfo.paymentAccInd": |it| { code_value(it.account()?.payment_account_created.as_ref(), PaymentAccountAge::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.shipping_address_usage_date" => "acctInfo.shipAddressUsage": |it| { text_value(it.account()?.shipping_address_usage_date.as_ref()) };
    "cardholder_info.account_info.shipping_address_first_used" => "acctInfo.shipAddressUsageInd": |it| { code_value(it.account()?.shipping_address_first_used.as_ref(), ShippingAddressUse::from_request, |it| it.code().to_owned()) };
    "cardholder_info.account_info.shipping_account_name_match" => "acctInfo.shipNameIndicator": |it| { flag_value(it.account()?.shipping_account_name_match, ShippingNameMatch::code) };
    "cardholder_info.account_info.suspicious_activity_observed" => "acctInfo.suspiciousAccActivity": |it| { flag_value(it.account()?.suspicious_activity_observed, SuspiciousActivity::code) };
    "cardholder_info.authentication_info.method" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthMethod": |it| { code_value(it.login()?.method.as_ref(), LoginMethod::from_name, LoginMethod::code) };
    "cardholder_info.authentication_info.timestamp" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthTimestamp": |it| { text_value(it.login()?.timestamp.as_ref()) };
    "cardholder_info.authentication_info.data" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthData": |it| { text_value(it.login()?.data.as_ref()) };
    "cardholder_info.prior_authentication_info.method" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthMethod": |it| { code_value(it.prior_authentication()?.method.as_ref(), PriorMethod::from_name, PriorMethod::code) };
    "cardholder_info.prior_authentication_info.timestamp" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthTimestamp": |it| { text_value(it.prior_authentication()?.timestamp.as_ref()) };
    "cardholder_info.prior_authentication_info.reference_id" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef": |it| { text_value(it.prior_authentication()?.reference_id.as_ref()) };
    "cardholder_info.prior_authentication_info.data" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthData": |it| { text_value(it.prior_authentication()?.data.as_ref()) };
};

pub(super) const ADDRESSES: &[ElementMapping] = elements! {
    "cardholder_info.billing_address.line1" => "billAddrLine1": |it| { text_value(it.billing_address()?.line1.as_ref()) };
    "cardholder_info.billing_address.line2" => "billAddrLine2": |it| { text_value(it.billing_address()?.line2.as_ref()) };
    "cardholder_info.billing_address.line3" => "billAddrLine3": |it| { text_value(it.billing_address()?.line3.as_ref()) };
    "cardholder_info.billing_address.postal_code" => "billAddrPostCode": |it| { text_value(it.billing_address()?.postal_code.as_ref()) };
    "cardholder_info.billing_address.city" => "billAddrCity": |it| { text_value(it.billing_address()?.city.as_ref()) };
    "cardholder_info.billing_address.state_code" => "billAddrState": |it| { text_value(it.billing_address()?.state_code.as_ref()) };
    "cardholder_info.billing_address.country_code" => "billAddrCountry": |it| { text_value(it.billing_address()?.country_code.as_ref()) };
    "cardholder_info.shipping_address.line1" => "shipAddrLine1": |it| { text_value(it.shipping_address()?.line1.as_ref()) };
    "cardholder_info.shipping_address.line2" => "shipAddrLine2": |it| { text_value(it.shipping_address()?.line2.as_ref()) };
    "cardholder_info.shipping_address.line3" => "shipAddrLine3": |it| { text_value(it.shipping_address()?.line3.as_ref()) };
    "cardholder_info.shipping_address.postal_code" => "shipAddrPostCode": |it| { text_value(it.shipping_address()?.postal_code.as_ref()) };
    "cardholder_info.shipping_address.city" => "shipAddrCity": |it| { text_value(it.shipping_address()?.city.as_ref()) };
    "cardholder_info.shipping_address.state_code" => "shipAddrState": |it| { text_value(it.shipping_address()?.state_code.as_ref()) };
    "cardholder_info.shipping_address.country_code" => "shipAddrCountry": |it| { text_value(it.shipping_address()?.country_code.as_ref()) };
};
