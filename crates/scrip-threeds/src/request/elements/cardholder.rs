//! The cardholder: person, account and addresses.

use super::mapping::{ElementMapping, code_value, elements, flag_value, text, text_value};
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
    "cardholder_info.name" => "cardholderName": text!(cardholder.name);
    "cardholder_info.email" => "email": text!(cardholder.email);
    "cardholder_info.account_id" => "acctID": text!(cardholder.account_id);
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
    "cardholder_info.account_info.account_change_date" => "acctInfo.chAccChange": text!(account.account_change_date);
    "cardholder_info.account_info.account_created_date" => "acctInfo.chAccDate": text!(account.account_created_date);
    "cardholder_info.account_info.account_pwd_last_changed" => "acctInfo.chAccPwChangeInd": |it| { code_value(it.account()?.account_pwd_last_changed.as_ref(), PasswordChange::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.account_pwd_change_date" => "acctInfo.chAccPwChange": text!(account.account_pwd_change_date);
    "cardholder_info.account_info.purchase_count_half_year" => "acctInfo.nbPurchaseAccount": text!(account.purchase_count_half_year);
    "cardholder_info.account_info.transaction_count_day" => "acctInfo.txnActivityDay": text!(account.transaction_count_day);
    "cardholder_info.account_info.transaction_count_year" => "acctInfo.txnActivityYear": text!(account.transaction_count_year);
    "cardholder_info.account_info.payment_account_age" => "acctInfo.paymentAccAge": text!(account.payment_account_age);
    "cardholder_info.account_info.payment_account_created" => "acctInfo.paymentAccInd": |it| { code_value(it.account()?.payment_account_created.as_ref(), PaymentAccountAge::from_name, |it| it.code().to_owned()) };
    "cardholder_info.account_info.shipping_address_usage_date" => "acctInfo.shipAddressUsage": text!(account.shipping_address_usage_date);
    "cardholder_info.account_info.shipping_address_first_used" => "acctInfo.shipAddressUsageInd": |it| { code_value(it.account()?.shipping_address_first_used.as_ref(), ShippingAddressUse::from_request, |it| it.code().to_owned()) };
    "cardholder_info.account_info.shipping_account_name_match" => "acctInfo.shipNameIndicator": |it| { flag_value(it.account()?.shipping_account_name_match, ShippingNameMatch::code) };
    "cardholder_info.account_info.suspicious_activity_observed" => "acctInfo.suspiciousAccActivity": |it| { flag_value(it.account()?.suspicious_activity_observed, SuspiciousActivity::code) };
    "cardholder_info.authentication_info.method" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthMethod": |it| { code_value(it.login()?.method.as_ref(), LoginMethod::from_name, LoginMethod::code) };
    "cardholder_info.authentication_info.timestamp" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthTimestamp": text!(login.timestamp);
    "cardholder_info.authentication_info.data" => "threeDSRequestorAuthenticationInfo.threeDSReqAuthData": text!(login.data);
    "cardholder_info.prior_authentication_info.method" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthMethod": |it| { code_value(it.prior_authentication()?.method.as_ref(), PriorMethod::from_name, PriorMethod::code) };
    "cardholder_info.prior_authentication_info.timestamp" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthTimestamp": text!(prior_authentication.timestamp);
    "cardholder_info.prior_authentication_info.reference_id" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef": text!(prior_authentication.reference_id);
    "cardholder_info.prior_authentication_info.data" => "threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthData": text!(prior_authentication.data);
};

pub(super) const ADDRESSES: &[ElementMapping] = elements! {
    "cardholder_info.billing_address.line1" => "billAddrLine1": text!(billing_address.line1);
    "cardholder_info.billing_address.line2" => "billAddrLine2": text!(billing_address.line2);
    "cardholder_info.billing_address.line3" => "billAddrLine3": text!(billing_address.line3);
    "cardholder_info.billing_address.postal_code" => "billAddrPostCode": text!(billing_address.postal_code);
    "cardholder_info.billing_address.city" => "billAddrCity": text!(billing_address.city);
    "cardholder_info.billing_address.state_code" => "billAddrState": text!(billing_address.state_code);
    "cardholder_info.billing_address.country_code" => "billAddrCountry": text!(billing_address.country_code);
    "cardholder_info.shipping_address.line1" => "shipAddrLine1": text!(shipping_address.line1);
    "cardholder_info.shipping_address.line2" => "shipAddrLine2": text!(shipping_address.line2);
    "cardholder_info.shipping_address.line3" => "shipAddrLine3": text!(shipping_address.line3);
    "cardholder_info.shipping_address.postal_code" => "shipAddrPostCode": text!(shipping_address.postal_code);
    "cardholder_info.shipping_address.city" => "shipAddrCity": text!(shipping_address.city);
    "cardholder_info.shipping_address.state_code" => "shipAddrState": text!(shipping_address.state_code);
    "cardholder_info.shipping_address.country_code" => "shipAddrCountry": text!(shipping_address.country_code);
};
