//! The rules about a request to authenticate, by their numbers: a request that keeps each, and one
//! that breaks it, with the path by which the client is told.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED, text},
    sessions_3ds::requests::{app, browser, merchant_payment},
};

/// Whose session the request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Browser,
    Merchant,
    /// A card that speaks 2.1.0 only.
    Old,
    OldMerchant,
}

/// Paths, and what is put there; null takes it away.
type Changes = &'static [(&'static str, &'static str)];

/// Number, session, changes, and the path that is told.
type Case = (u8, Of, Changes, &'static str);

#[rustfmt::skip]
const BROKEN: &[Case] = &[
    (4, Of::Browser, &[("authentication_category", "null")], "authentication_category"),
    (4, Of::Browser, &[("authentication_category", r#""Payment""#)], "authentication_category"),
    (5, Of::Browser, &[("authentication_type", "null")], "authentication_type"),
    (5, Of::Browser, &[("authentication_type", r#""top-up""#)], "authentication_type"),
    (5, Of::Merchant, &[("authentication_type", r#""payment-transaction""#)], "authentication_type"),
    (6, Of::Merchant, &[("decoupled_challenge_max_time", "null")], "decoupled_challenge_max_time"),
    (7, Of::Browser, &[("request_decoupled_challenge", "true")], "decoupled_challenge_max_time"),
    (7, Of::Merchant, &[("request_decoupled_challenge", "false"), ("decoupled_challenge_max_time", "null")], "decoupled_challenge_max_time"),
    (7, Of::Browser, &[("decoupled_challenge_max_time", "10081")], "decoupled_challenge_max_time"),
    (8, Of::Browser, &[("challenge_preference", r#""03""#)], "challenge_preference"),
    (9, Of::Browser, &[("purchase_info", "null")], "purchase_info"),
    (9, Of::Browser, &[("purchase_info", "null"), ("authentication_category", r#""non-payment""#), ("authentication_type", r#""installment-transaction""#)], "purchase_info"),
    (10, Of::Browser, &[("purchase_info.amount", "null")], "purchase_info.amount"),
    (11, Of::Browser, &[("purchase_info.currency", "null")], "purchase_info.currency"),
    (12, Of::Browser, &[("purchase_info.exponent", "null")], "purchase_info.exponent"),
    (13, Of::Browser, &[("purchase_info.date", "null")], "purchase_info.date"),
    (13, Of::Browser, &[("purchase_info.date", r#""2026-11-09""#)], "purchase_info.date"),
    (14, Of::Browser, &[("purchase_info.transaction_type", "null")], "purchase_info.transaction_type"),
    (14, Of::Browser, &[("purchase_info.transaction_type", r#""buy""#)], "purchase_info.transaction_type"),
    (15, Of::Browser, &[("authentication_type", r#""installment-transaction""#)], "purchase_info.installment_count"),
    (16, Of::Browser, &[("authentication_type", r#""recurring-transaction""#)], "purchase_info.recurring_expiration"),
    (17, Of::Browser, &[("authentication_type", r#""recurring-transaction""#)], "purchase_info.recurring_frequency"),
    (18, Of::Browser, &[("merchant_info", "null")], "merchant_info"),
    (19, Of::Browser, &[("merchant_info.name", "null")], "merchant_info.name"),
    (20, Of::Browser, &[("merchant_info.mid", "null")], "merchant_info.mid"),
    (21, Of::Browser, &[("merchant_info.acquirer_bin", "null")], "merchant_info.acquirer_bin"),
    (22, Of::Browser, &[("merchant_info.country_code", "null")], "merchant_info.country_code"),
    (23, Of::Browser, &[("merchant_info.category_code", "null")], "merchant_info.category_code"),
    (24, Of::Browser, &[("requestor_info", "null")], "requestor_info"),
    (25, Of::Browser, &[("requestor_info.id", "null")], "requestor_info.id"),
    (26, Of::Browser, &[("requestor_info.name", "null")], "requestor_info.name"),
    (27, Of::Merchant, &[("requestor_info.url", "null")], "requestor_info.url"),
    (28, Of::Browser, &[("cardholder_info", "null")], "cardholder_info"),
    (29, Of::Browser, &[("cardholder_info.name", "null")], "cardholder_info.name"),
    (30, Of::Browser, &[("cardholder_info.email", "null")], "cardholder_info.email"),
    (31, Of::Browser, &[("merchant_info.risk_info", r#"{"delivery_time_frame":"soon"}"#)], "merchant_info.risk_info.delivery_time_frame"),
    (31, Of::Browser, &[("merchant_info.risk_info", r#"{"gift_card_amount":"1.5"}"#)], "merchant_info.risk_info.gift_card_amount"),
    (31, Of::Browser, &[("merchant_info.risk_info", r#"{"pre_order_purchase":"no"}"#)], "merchant_info.risk_info.pre_order_purchase"),
    (32, Of::Browser, &[("cardholder_info.account_type", r#""02""#)], "cardholder_info.account_type"),
    (32, Of::Browser, &[("cardholder_info.billing_address", r#"{"country_code":"US"}"#)], "cardholder_info.billing_address.country_code"),
    (33, Of::Browser, &[("cardholder_info.account_info", r#"{"account_age":"old"}"#)], "cardholder_info.account_info.account_age"),
    (33, Of::Browser, &[("cardholder_info.account_info", r#"{"account_change_date":"2026-11-01"}"#)], "cardholder_info.account_info.account_change_date"),
    (33, Of::Browser, &[("cardholder_info.account_info", r#"{"suspicious_activity_observed":"no"}"#)], "cardholder_info.account_info.suspicious_activity_observed"),
    (34, Of::Browser, &[("cardholder_info.authentication_info", r#"{"timestamp":"20261115"}"#)], "cardholder_info.authentication_info.timestamp"),
    (34, Of::Browser, &[("cardholder_info.prior_authentication_info", r#"{"method":"x"}"#)], "cardholder_info.prior_authentication_info.method"),
    (35, Of::Browser, &[("message_extensions", r#"[{"id":"a","name":"b","critical":true}]"#)], "message_extensions"),
    (35, Of::Browser, &[("broadcast_info", r#""x""#)], "broadcast_info"),
    (37, Of::Merchant, &[("authentication_category", r#""non-payment""#), ("authentication_type", r#""mail-order""#), ("purchase_info", "null")], "purchase_info"),
    (38, Of::Browser, &[("cardholder_info.phone_number", r#"{"number":"5551234"}"#)], "cardholder_info.phone_number"),
    (38, Of::Browser, &[("cardholder_info.billing_address", r#"{"state_code":"CA"}"#)], "cardholder_info.billing_address.country_code"),
    (39, Of::OldMerchant, &[], "authentication_category"),
    (39, Of::Old, &[("challenge_preference", r#""no-challenge-data-sharing-only""#)], "challenge_preference"),
];

#[rustfmt::skip]
const KEPT: &[(u8, Of, Changes)] = &[
    (4, Of::Browser, &[("authentication_category", r#""non-payment""#)]),
    (5, Of::Browser, &[("authentication_type", r#""add-card""#)]),
    (5, Of::Merchant, &[("authentication_type", r#""top-up""#)]),
    (6, Of::Browser, &[]),
    (7, Of::Browser, &[("request_decoupled_challenge", "true"), ("decoupled_challenge_max_time", "10080")]),
    (8, Of::Browser, &[("challenge_preference", r#""cartes-bancaires""#)]),
    (9, Of::Browser, &[("authentication_category", r#""non-payment""#), ("purchase_info", "null"), ("merchant_info", "null")]),
    (14, Of::Browser, &[("purchase_info.transaction_type", r#""quasi-cash""#)]),
    (15, Of::Browser, &[("authentication_type", r#""installment-transaction""#), ("purchase_info.installment_count", r#""12""#)]),
    (17, Of::Browser, &[("authentication_type", r#""recurring-transaction""#), ("purchase_info.recurring_expiration", r#""20271231""#), ("purchase_info.recurring_frequency", r#""30""#)]),
    (31, Of::Browser, &[("merchant_info.risk_info", r#"{"delivery_time_frame":"same-day-shipping","gift_card_amount":"15","gift_card_currency":"826","pre_order_purchase":true,"pre_order_date":"20270101","reordered_purchase":false,"shipping_method":"digital-goods"}"#)]),
    (32, Of::Browser, &[("cardholder_info.account_type", r#""credit""#), ("cardholder_info.billing_shipping_address_match", r#""Y""#), ("cardholder_info.billing_address", r#"{"line1":"1 Road","city":"London","country_code":"826"}"#)]),
    (33, Of::Browser, &[("cardholder_info.account_info", r#"{"account_age":"less-than-30-days","account_last_changed":"no-change","account_change_date":"20261101","shipping_address_first_used":"no-address","shipping_account_name_match":true}"#)]),
    (34, Of::Browser, &[("cardholder_info.authentication_info", r#"{"method":"fido","timestamp":"202611151200","data":"x"}"#), ("cardholder_info.prior_authentication_info", r#"{"method":"challenged","timestamp":"202611151200"}"#)]),
    (35, Of::Browser, &[("message_extensions", r#"[{"id":"a","name":"b","critical":false,"data":"{\"a\":1}"}]"#), ("broadcast_info", r#"{"a":1}"#)]),
    (36, Of::Browser, &[("authentication_type", r#""installment-transaction""#), ("purchase_info.installment_count", r#""2""#)]),
    (37, Of::Merchant, &[("authentication_category", r#""non-payment""#), ("authentication_type", r#""mail-order""#)]),
    (38, Of::Browser, &[("cardholder_info.phone_number", r#"{"country_code":"1","number":"5551234"}"#)]),
    (39, Of::OldMerchant, &[("authentication_category", r#""non-payment""#), ("authentication_type", r#""add-card""#)]),
    (39, Of::Old, &[("challenge_preference", r#""challenge-mandated""#)]),
];

fn session(of: Of) -> String {
    let number = match of {
        Of::Browser | Of::Merchant => "4000020000000000",
        Of::Old | Of::OldMerchant => "370000000000002",
    };
    let mut body =
        json!({"token_id": SHARED.numbered_token(&ACME, number), "device_info": browser()});
    if matches!(of, Of::Merchant | Of::OldMerchant) {
        body["type"] = "merchant".into();
    }
    text(&SHARED.session(&ACME.private, &body), "id")
}

fn request(of: Of, changes: &[(&str, &str)]) -> Value {
    let mut request = match of {
        Of::Browser | Of::Old => payment("Frictionless"),
        Of::Merchant | Of::OldMerchant => merchant_payment("Frictionless"),
    };
    for (path, value) in changes {
        let pointer = format!("/{}", path.replace('.', "/"));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        request.pointer_mut(parent).unwrap()[name] = serde_json::from_str(value).unwrap();
    }
    request
}

#[test]
fn a_broken_rule_is_told_by_its_path() {
    let sessions =
        [Of::Browser, Of::Merchant, Of::Old, Of::OldMerchant].map(|it| (it, session(it)));
    for (number, of, changes, path) in BROKEN {
        let (_, id) = sessions.iter().find(|it| it.0 == *of).unwrap();
        let reply = SHARED.authenticate(&ACME.private, id, &request(*of, changes));
        assert_eq!(reply.status, 400, "{number} {path}: {}", reply.text);
        reply.invalid(path);
    }
    // None of them was sent.
    for (_, id) in &sessions {
        assert!(SHARED.scripted.exchange(id).is_none());
    }
}

#[test]
fn what_keeps_the_rules_is_sent() {
    for (number, of, changes) in KEPT {
        let id = session(*of);
        let reply = SHARED.authenticate(&ACME.private, &id, &request(*of, changes));
        assert_eq!(reply.status, 200, "{number}: {}", reply.text);
        assert!(SHARED.scripted.exchange(&id).is_some());
    }
}

/// Rules 1 to 3 are those of creating a session.
#[test]
fn every_number_is_broken_once() {
    let numbers: std::collections::BTreeSet<_> = BROKEN.iter().map(|it| it.0).collect();
    let expected = (4..=39).filter(|it| *it != 36);
    assert_eq!(numbers, expected.collect());
}

/// Rule 38: what a device did not tell when its session was created cannot be made up later.
#[test]
fn what_a_device_did_not_tell_is_named() {
    let complete = browser();
    for name in complete.as_object().unwrap().keys() {
        let mut device = complete.clone();
        device.as_object_mut().unwrap().remove(name);
        let body = json!({"token_id": SHARED.card_token(&ACME), "device_info": device});
        let id = text(&SHARED.session(&ACME.public, &body), "id");
        let reply = SHARED.authenticate(&ACME.private, &id, &payment("Frictionless"));
        reply.invalid(&format!("device_info.{name}"));
    }
    for name in app().as_object().unwrap().keys() {
        let mut device = app();
        device.as_object_mut().unwrap().remove(name);
        let id = SHARED.app_session(&ACME.public, &SHARED.card_intent(&ACME));
        let path = format!("{}/{id}", crate::sessions_3ds::requests::SESSIONS);
        SHARED.put(&ACME.public, &path, &json!({"device_info": device})).is(200);
        let reply = SHARED.authenticate(&ACME.private, &id, &payment("Frictionless"));
        reply.invalid(&format!("device_info.{name}"));
    }
}
