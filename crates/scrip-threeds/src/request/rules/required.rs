//! Rules 4 to 30: required attributes.

use super::rule::{
    NOT_AN_ALLOWED_VALUE, PURCHASE_REQUIRED, REQUIRED, RequestRule, is_invalid, is_missing,
    required_attribute, rule,
};
use crate::{
    code::{AuthenticationCategory, AuthenticationType, ChallengePreference, TransactionType},
    request::AuthenticateContext,
};

fn always(_: &AuthenticateContext<'_>) -> bool {
    true
}

pub(super) const RULES: &[RequestRule] = &[
    rule(4, "authentication_category", REQUIRED, |it| {
        is_missing(it.request.authentication_category.as_ref())
    }),
    rule(4, "authentication_category", NOT_AN_ALLOWED_VALUE, |it| {
        let known = |it: &str| AuthenticationCategory::from_name(it).is_some();
        is_invalid(it.request.authentication_category.as_ref(), known)
    }),
    rule(5, "authentication_type", REQUIRED, |it| {
        is_missing(it.request.authentication_type.as_ref())
    }),
    rule(5, "authentication_type", NOT_AN_ALLOWED_VALUE, |it| {
        let known = |it: &str| AuthenticationType::from_name(it).is_some();
        is_invalid(it.request.authentication_type.as_ref(), known)
    }),
    rule(5, "authentication_type", "is not allowed in this type of session", |it| {
        it.authentication_type().is_some_and(|kind| !kind.is_allowed_in(it.session))
    }),
    rule(7, "decoupled_challenge_max_time", REQUIRED, |it| {
        let is_requested = it.requests_decoupled() || it.is_merchant();
        is_requested && it.request.decoupled_challenge_max_time.is_none()
    }),
    rule(7, "decoupled_challenge_max_time", "is not between 1 and 10080 minutes", |it| {
        it.request.decoupled_challenge_max_time.is_some_and(|it| !(1..=10_080).contains(&it))
    }),
    rule(8, "challenge_preference", NOT_AN_ALLOWED_VALUE, |it| {
        let known = |it: &str| ChallengePreference::from_name(it).is_some();
        is_invalid(it.request.challenge_preference.as_ref(), known)
    }),
    rule(9, "purchase_info", PURCHASE_REQUIRED, |it| {
        it.requires_purchase() && it.purchase().is_none()
    }),
    required_attribute!(
        10,
        purchase_info.amount,
        AuthenticateContext::requires_purchase,
        PURCHASE_REQUIRED
    ),
    required_attribute!(
        11,
        purchase_info.currency,
        AuthenticateContext::requires_purchase,
        PURCHASE_REQUIRED
    ),
    required_attribute!(
        12,
        purchase_info.exponent,
        AuthenticateContext::requires_purchase,
        PURCHASE_REQUIRED
    ),
    required_attribute!(
        13,
        purchase_info.date,
        AuthenticateContext::requires_purchase,
        PURCHASE_REQUIRED
    ),
    required_attribute!(14, purchase_info.transaction_type, AuthenticateContext::is_payment),
    rule(14, "purchase_info.transaction_type", NOT_AN_ALLOWED_VALUE, |it| {
        let known = |it: &str| TransactionType::from_name(it).is_some();
        it.purchase().is_some_and(|parent| is_invalid(parent.transaction_type.as_ref(), known))
    }),
    required_attribute!(15, purchase_info.installment_count, AuthenticateContext::is_installment),
    required_attribute!(16, purchase_info.recurring_expiration, AuthenticateContext::is_recurring),
    required_attribute!(17, purchase_info.recurring_frequency, AuthenticateContext::is_recurring),
    rule(18, "merchant_info", REQUIRED, |it| it.is_payment() && it.merchant().is_none()),
    required_attribute!(19, merchant_info.name, AuthenticateContext::is_payment),
    required_attribute!(20, merchant_info.mid, AuthenticateContext::is_payment),
    required_attribute!(21, merchant_info.acquirer_bin, AuthenticateContext::is_payment),
    required_attribute!(22, merchant_info.country_code, AuthenticateContext::is_payment),
    required_attribute!(23, merchant_info.category_code, AuthenticateContext::is_payment),
    rule(24, "requestor_info", REQUIRED, |it| it.request.requestor_info.is_none()),
    required_attribute!(25, requestor_info.id, always),
    required_attribute!(26, requestor_info.name, always),
    required_attribute!(27, requestor_info.url, always),
    rule(28, "cardholder_info", REQUIRED, |it| it.request.cardholder_info.is_none()),
    required_attribute!(29, cardholder_info.name, always),
    required_attribute!(30, cardholder_info.email, always),
];
