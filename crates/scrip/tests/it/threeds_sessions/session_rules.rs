//! The rules for an authentication request, by number: valid requests, and for each rule a request
//! that violates it, with the attribute path in the error.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER},
    threeds_sessions::requests::{app_info, browser_info, merchant_payment},
};

/// The session that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionKind {
    Browser,
    Merchant,
    /// A session of a card that supports 2.1.0 only.
    Version210,
    Version210Merchant,
}

/// Attribute paths and their new values. `null` removes an attribute.
type RequestChanges = &'static [(&'static str, &'static str)];

/// Rule number, session, changes, and the path in the error.
type RuleCase = (u8, SessionKind, RequestChanges, &'static str);

#[rustfmt::skip]
const INVALID_REQUESTS: &[RuleCase] = &[
    (4, SessionKind::Browser, &[("authentication_category", "null")], "authentication_category"),
    (4, SessionKind::Browser, &[("authentication_category", r#""Payment""#)], "authentication_category"),
    (5, SessionKind::Browser, &[("authentication_type", "null")], "authentication_type"),
    (5, SessionKind::Browser, &[("authentication_type", r#""top-up""#)], "authentication_type"),
    (5, SessionKind::Merchant, &[("authentication_type", r#""payment-transaction""#)], "authentication_type"),
    (6, SessionKind::Merchant, &[("decoupled_challenge_max_time", "null")], "decoupled_challenge_max_time"),
    (7, SessionKind::Browser, &[("request_decoupled_challenge", "true")], "decoupled_challenge_max_time"),
    (7, SessionKind::Merchant, &[("request_decoupled_challenge", "false"), ("decoupled_challenge_max_time", "null")], "decoupled_challenge_max_time"),
    (7, SessionKind::Browser, &[("decoupled_challenge_max_time", "10081")], "decoupled_challenge_max_time"),
    (8, SessionKind::Browser, &[("challenge_preference", r#""03""#)], "challenge_preference"),
    (9, SessionKind::Browser, &[("purchase_info", "null")], "purchase_info"),
    (9, SessionKind::Browser, &[("purchase_info", "null"), ("authentication_category", r#""non-payment""#), ("authentication_type", r#""installment-transaction""#)], "purchase_info"),
    (10, SessionKind::Browser, &[("purchase_info.amount", "null")], "purchase_info.amount"),
    (11, SessionKind::Browser, &[("purchase_info.currency", "null")], "purchase_info.currency"),
    (12, SessionKind::Browser, &[("purchase_info.exponent", "null")], "purchase_info.exponent"),
    (13, SessionKind::Browser, &[("purchase_info.date", "null")], "purchase_info.date"),
    (13, SessionKind::Browser, &[("purchase_info.date", r#""2026-11-09""#)], "purchase_info.date"),
    (14, SessionKind::Browser, &[("purchase_info.transaction_type", "null")], "purchase_info.transaction_type"),
    (14, SessionKind::Browser, &[("purchase_info.transaction_type", r#""buy""#)], "purchase_info.transaction_type"),
    (15, SessionKind::Browser, &[("authentication_type", r#""installment-transaction""#)], "purchase_info.installment_count"),
    (16, SessionKind::Browser, &[("authentication_type", r#""recurring-transaction""#)], "purchase_info.recurring_expiration"),
    (17, SessionKind::Browser, &[("authentication_type", r#""recurring-transaction""#)], "purchase_info.recurring_frequency"),
    (18, SessionKind::Browser, &[("merchant_info", "null")], "merchant_info"),
    (19, SessionKind::Browser, &[("merchant_info.name", "null")], "merchant_info.name"),
    (20, SessionKind::Browser, &[("merchant_info.mid", "null")], "merchant_info.mid"),
    (21, SessionKind::Browser, &[("merchant_info.acquirer_bin", "null")], "merchant_info.acquirer_bin"),
    (22, SessionKind::Browser, &[("merchant_info.country_code", "null")], "merchant_info.country_code"),
    (23, SessionKind::Browser, &[("merchant_info.category_code", "null")], "merchant_info.category_code"),
    (24, SessionKind::Browser, &[("requestor_info", "null")], "requestor_info"),
    (25, SessionKind::Browser, &[("requestor_info.id", "null")], "requestor_info.id"),
    (26, SessionKind::Browser, &[("requestor_info.name", "null")], "requestor_info.name"),
    (27, SessionKind::Merchant, &[("requestor_info.url", "null")], "requestor_info.url"),
    (28, SessionKind::Browser, &[("cardholder_info", "null")], "cardholder_info"),
    (29, SessionKind::Browser, &[("cardholder_info.name", "null")], "cardholder_info.name"),
    (30, SessionKind::Browser, &[("cardholder_info.email", "null")], "cardholder_info.email"),
    (31, SessionKind::Browser, &[("merchant_info.risk_info", r#"{"delivery_time_frame":"soon"}"#)], "merchant_info.risk_info.delivery_time_frame"),
    (31, SessionKind::Browser, &[("merchant_info.risk_info", r#"{"gift_card_amount":"1.5"}"#)], "merchant_info.risk_info.gift_card_amount"),
    (31, SessionKind::Browser, &[("merchant_info.risk_info", r#"{"pre_order_purchase":"no"}"#)], "merchant_info.risk_info.pre_order_purchase"),
    (32, SessionKind::Browser, &[("cardholder_info.account_type", r#""02""#)], "cardholder_info.account_type"),
    (32, SessionKind::Browser, &[("cardholder_info.billing_address", r#"{"country_code":"US"}"#)], "cardholder_info.billing_address.country_code"),
    (33, SessionKind::Browser, &[("cardholder_info.account_info", r#"{"account_age":"old"}"#)], "cardholder_info.account_info.account_age"),
    (33, SessionKind::Browser, &[("cardholder_info.account_info", r#"{"account_change_date":"2026-11-01"}"#)], "cardholder_info.account_info.account_change_date"),
    (33, SessionKind::Browser, &[("cardholder_info.account_info", r#"{"suspicious_activity_observed":"no"}"#)], "cardholder_info.account_info.suspicious_activity_observed"),
    (34, SessionKind::Browser, &[("cardholder_info.authentication_info", r#"{"timestamp":"20261115"}"#)], "cardholder_info.authentication_info.timestamp"),
    (34, SessionKind::Browser, &[("cardholder_info.prior_authentication_info", r#"{"method":"x"}"#)], "cardholder_info.prior_authentication_info.method"),
    (35, SessionKind::Browser, &[("message_extensions", r#"[{"id":"a","name":"b","critical":true}]"#)], "message_extensions"),
    (35, SessionKind::Browser, &[("broadcast_info", r#""x""#)], "broadcast_info"),
    (37, SessionKind::Merchant, &[("authentication_category", r#""non-payment""#), ("authentication_type", r#""mail-order""#), ("purchase_info", "null")], "purchase_info"),
    (38, SessionKind::Browser, &[("cardholder_info.phone_number", r#"{"number":"5551234"}"#)], "cardholder_info.phone_number"),
    (38, SessionKind::Browser, &[("cardholder_info.billing_address", r#"{"state_code":"CA"}"#)], "cardholder_info.billing_address.country_code"),
    (39, SessionKind::Version210Merchant, &[], "authentication_category"),
    (39, SessionKind::Version210, &[("challenge_preference", r#""no-challenge-data-sharing-only""#)], "challenge_preference"),
];

#[rustfmt::skip]
const VALID_REQUESTS: &[(u8, SessionKind, RequestChanges)] = &[
    (4, SessionKind::Browser, &[("authentication_category", r#""non-payment""#)]),
    (5, SessionKind::Browser, &[("authentication_type", r#""add-card""#)]),
    (5, SessionKind::Merchant, &[("authentication_type", r#""top-up""#)]),
    (6, SessionKind::Browser, &[]),
    (7, SessionKind::Browser, &[("request_decoupled_challenge", "true"), ("decoupled_challenge_max_time", "10080")]),
    (8, SessionKind::Browser, &[("challenge_preference", r#""cartes-bancaires""#)]),
    (9, SessionKind::Browser, &[("authentication_category", r#""non-payment""#), ("purchase_info", "null"), ("merchant_info", "null")]),
    (14, SessionKind::Browser, &[("purchase_info.transaction_type", r#""quasi-cash""#)]),
    (15, SessionKind::Browser, &[("authentication_type", r#""installment-transaction""#), ("purchase_info.installment_count", r#""12""#)]),
    (17, SessionKind::Browser, &[("authentication_type", r#""recurring-transaction""#), ("purchase_info.recurring_expiration", r#""20271231""#), ("purchase_info.recurring_frequency", r#""30""#)]),
    (31, SessionKind::Browser, &[("merchant_info.risk_info", r#"{"delivery_time_frame":"same-day-shipping","gift_card_amount":"15","gift_card_currency":"826","pre_order_purchase":true,"pre_order_date":"20270101","reordered_purchase":false,"shipping_method":"digital-goods"}"#)]),
    (32, SessionKind::Browser, &[("cardholder_info.account_type", r#""credit""#), ("cardholder_info.billing_shipping_address_match", r#""Y""#), ("cardholder_info.billing_address", r#"{"line1":"1 Road","city":"London","country_code":"826"}"#)]),
    (33, SessionKind::Browser, &[("cardholder_info.account_info", r#"{"account_age":"less-than-30-days","account_last_changed":"no-change","account_change_date":"20261101","shipping_address_first_used":"no-address","shipping_account_name_match":true}"#)]),
    (34, SessionKind::Browser, &[("cardholder_info.authentication_info", r#"{"method":"fido","timestamp":"202611151200","data":"x"}"#), ("cardholder_info.prior_authentication_info", r#"{"method":"challenged","timestamp":"202611151200"}"#)]),
    (35, SessionKind::Browser, &[("message_extensions", r#"[{"id":"a","name":"b","critical":false,"data":"{\"a\":1}"}]"#), ("broadcast_info", r#"{"a":1}"#)]),
    (36, SessionKind::Browser, &[("authentication_type", r#""installment-transaction""#), ("purchase_info.installment_count", r#""2""#)]),
    (37, SessionKind::Merchant, &[("authentication_category", r#""non-payment""#), ("authentication_type", r#""mail-order""#)]),
    (38, SessionKind::Browser, &[("cardholder_info.phone_number", r#"{"country_code":"1","number":"5551234"}"#)]),
    (39, SessionKind::Version210Merchant, &[("authentication_category", r#""non-payment""#), ("authentication_type", r#""add-card""#)]),
    (39, SessionKind::Version210, &[("challenge_preference", r#""challenge-mandated""#)]),
];

fn create_session(kind: SessionKind) -> String {
    let number = match kind {
        SessionKind::Browser | SessionKind::Merchant => "4000020000000000",
        SessionKind::Version210 | SessionKind::Version210Merchant => "370000000000002",
    };
    let mut body =
        json!({"token_id": SERVER.token_with_number(&ACME, number), "device_info": browser_info()});
    if matches!(kind, SessionKind::Merchant | SessionKind::Version210Merchant) {
        body["type"] = "merchant".into();
    }
    SERVER.create_session_id(&ACME.private, &body)
}

fn build_request(kind: SessionKind, changes: &[(&str, &str)]) -> Value {
    let mut request = match kind {
        SessionKind::Browser | SessionKind::Version210 => payment("Frictionless"),
        SessionKind::Merchant | SessionKind::Version210Merchant => merchant_payment("Frictionless"),
    };
    for (path, value) in changes {
        let pointer = format!("/{}", path.replace('.', "/"));
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        request.pointer_mut(parent).unwrap()[name] = serde_json::from_str(value).unwrap();
    }
    request
}

#[test]
fn violated_rule_names_the_attribute_path() {
    let sessions = [
        SessionKind::Browser,
        SessionKind::Merchant,
        SessionKind::Version210,
        SessionKind::Version210Merchant,
    ]
    .map(|it| (it, create_session(it)));
    for (number, of, changes, path) in INVALID_REQUESTS {
        let (_, id) = sessions.iter().find(|it| it.0 == *of).unwrap();
        let response = SERVER.authenticate(&ACME.private, id, &build_request(*of, changes));
        assert_eq!(response.status, 400, "rule {number}, path {path}: {}", response.text);
        response.expect_invalid(path);
    }
    // No message was sent for any of these requests.
    for (_, id) in &sessions {
        assert!(SERVER.directory_servers.exchange(id).is_none());
    }
}

#[test]
fn valid_requests_are_sent_to_the_directory_server() {
    for (number, of, changes) in VALID_REQUESTS {
        let id = create_session(*of);
        let response = SERVER.authenticate(&ACME.private, &id, &build_request(*of, changes));
        assert_eq!(response.status, 200, "rule {number}: {}", response.text);
        assert!(SERVER.directory_servers.exchange(&id).is_some());
    }
}

/// Rules 1 to 3 apply to creating a session.
#[test]
fn every_rule_has_an_invalid_request() {
    let numbers: std::collections::BTreeSet<_> = INVALID_REQUESTS.iter().map(|it| it.0).collect();
    let expected = (4..=39).filter(|it| *it != 36);
    assert_eq!(numbers, expected.collect());
}

/// Rule 38: device data that was missing when the session was created cannot be added later.
#[test]
fn missing_device_attributes_are_named() {
    let complete = browser_info();
    for name in complete.as_object().unwrap().keys() {
        let mut device = complete.clone();
        device.as_object_mut().unwrap().remove(name);
        let body = json!({"token_id": SERVER.card_token(&ACME), "device_info": device});
        let id = SERVER.create_session_id(&ACME.public, &body);
        let response = SERVER.authenticate_as(&ACME.private, &id, "Frictionless");
        response.expect_invalid(&format!("device_info.{name}"));
    }
    for name in app_info().as_object().unwrap().keys() {
        let mut device = app_info();
        device.as_object_mut().unwrap().remove(name);
        let id = SERVER.create_app_session(&ACME.public, &SERVER.create_card_intent(&ACME));
        let path = format!("{}/{id}", crate::threeds_sessions::requests::SESSIONS);
        SERVER.put(&ACME.public, &path, &json!({"device_info": device})).expect_status(200);
        let response = SERVER.authenticate_as(&ACME.private, &id, "Frictionless");
        response.expect_invalid(&format!("device_info.{name}"));
    }
}
