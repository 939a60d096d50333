//! Rules 4 to 30: what must be there.

use super::{REQUIRED, Rule, Situation, UNKNOWN, is_missing, is_wrong};
use crate::code::{
    AuthenticationCategory, AuthenticationType, ChallengePreference, TransactionType,
};

const fn rule(
    number: u8,
    path: &'static str,
    message: &'static str,
    is_broken: fn(&Situation<'_>) -> bool,
) -> Rule {
    Rule { number, path, message, is_broken }
}

/// A purchase's attribute, when a purchase is wanted and there is one to have it.
macro_rules! purchase {
    ($number:literal, $name:ident) => {
        rule($number, concat!("purchase_info.", stringify!($name)), REQUIRED, |it| {
            it.wants_purchase() && it.purchase().is_some_and(|of| is_missing(of.$name.as_ref()))
        })
    };
    ($number:literal, $name:ident, $Kind:ident) => {
        rule($number, concat!("purchase_info.", stringify!($name)), REQUIRED, |it| {
            it.kind() == Some(AuthenticationType::$Kind)
                && it.purchase().is_some_and(|of| is_missing(of.$name.as_ref()))
        })
    };
}

macro_rules! merchant {
    ($number:literal, $name:ident) => {
        rule($number, concat!("merchant_info.", stringify!($name)), REQUIRED, |it| {
            it.is_payment() && it.merchant().is_some_and(|of| is_missing(of.$name.as_ref()))
        })
    };
}

macro_rules! always {
    ($number:literal, $object:ident.$name:ident) => {
        rule($number, concat!(stringify!($object), ".", stringify!($name)), REQUIRED, |it| {
            it.request.$object.as_ref().is_some_and(|of| is_missing(of.$name.as_ref()))
        })
    };
}

pub(super) const RULES: &[Rule] = &[
    rule(4, "authentication_category", REQUIRED, |it| {
        is_missing(it.request.authentication_category.as_ref())
    }),
    rule(4, "authentication_category", UNKNOWN, |it| {
        let known = |it: &str| AuthenticationCategory::from_name(it).is_some();
        is_wrong(it.request.authentication_category.as_ref(), known)
    }),
    rule(5, "authentication_type", REQUIRED, |it| {
        is_missing(it.request.authentication_type.as_ref())
    }),
    rule(5, "authentication_type", UNKNOWN, |it| {
        let known = |it: &str| AuthenticationType::from_name(it).is_some();
        is_wrong(it.request.authentication_type.as_ref(), known)
    }),
    rule(5, "authentication_type", "is not for this type of session", |it| {
        it.kind().is_some_and(|kind| !kind.is_for(it.session))
    }),
    rule(7, "decoupled_challenge_max_time", REQUIRED, |it| {
        let asked = it.decoupled() || it.is_merchant();
        asked && it.request.decoupled_challenge_max_time.is_none()
    }),
    rule(7, "decoupled_challenge_max_time", "is not between 1 and 10080 minutes", |it| {
        it.request.decoupled_challenge_max_time.is_some_and(|it| !(1..=10_080).contains(&it))
    }),
    rule(8, "challenge_preference", UNKNOWN, |it| {
        let known = |it: &str| ChallengePreference::from_name(it).is_some();
        is_wrong(it.request.challenge_preference.as_ref(), known)
    }),
    rule(9, "purchase_info", REQUIRED, |it| it.wants_purchase() && it.purchase().is_none()),
    purchase!(10, amount),
    purchase!(11, currency),
    purchase!(12, exponent),
    purchase!(13, date),
    rule(14, "purchase_info.transaction_type", REQUIRED, |it| {
        it.is_payment() && it.purchase().is_some_and(|of| is_missing(of.transaction_type.as_ref()))
    }),
    rule(14, "purchase_info.transaction_type", UNKNOWN, |it| {
        let known = |it: &str| TransactionType::from_name(it).is_some();
        it.purchase().is_some_and(|of| is_wrong(of.transaction_type.as_ref(), known))
    }),
    purchase!(15, installment_count, InstallmentTransaction),
    purchase!(16, recurring_expiration, RecurringTransaction),
    purchase!(17, recurring_frequency, RecurringTransaction),
    rule(18, "merchant_info", REQUIRED, |it| it.is_payment() && it.merchant().is_none()),
    merchant!(19, name),
    merchant!(20, mid),
    merchant!(21, acquirer_bin),
    merchant!(22, country_code),
    merchant!(23, category_code),
    rule(24, "requestor_info", REQUIRED, |it| it.request.requestor_info.is_none()),
    always!(25, requestor_info.id),
    always!(26, requestor_info.name),
    always!(27, requestor_info.url),
    rule(28, "cardholder_info", REQUIRED, |it| it.request.cardholder_info.is_none()),
    always!(29, cardholder_info.name),
    always!(30, cardholder_info.email),
];
