//! The mapping of a request: every attribute becomes an element, and invalid elements are reported.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::{code::Scheme, message::Message};

type AttributeChange = fn(&mut RequestFixture, String);

fn areq_json(fixture: &RequestFixture) -> Value {
    serde_json::from_slice(&fixture.build_areq().unwrap().to_json()).unwrap()
}

#[test]
fn browser_payment_maps_to_areq_elements() {
    let areq = areq_json(&customer());
    for (name, value) in [
        ("messageType", json!("AReq")),
        ("messageVersion", json!("2.2.0")),
        ("threeDSServerTransID", json!("8a880dc0-d2d2-4067-bcb1-b08d1690b26e")),
        ("deviceChannel", json!("02")),
        ("messageCategory", json!("01")),
        ("threeDSCompInd", json!("Y")),
        ("threeDSRequestorAuthenticationInd", json!("01")),
        ("threeDSRequestorChallengeInd", json!("03")),
        ("threeDSRequestorDecReqInd", json!("N")),
        ("acctNumber", json!("4000020000000000")),
        ("cardExpiryDate", json!("3012")),
        ("browserLanguage", json!("en-US")),
        ("browserColorDepth", json!("24")),
        ("browserJavascriptEnabled", json!(true)),
        ("homePhone", json!({"cc": "44", "subscriber": "1"})),
        ("transType", json!("01")),
        ("acctType", json!("02")),
        ("addrMatch", json!("N")),
        ("broadInfo", json!({"a": 1})),
    ] {
        assert_eq!(areq.get(name), Some(&value), "{name}");
    }
    assert_eq!(
        areq["merchantRiskIndicator"],
        json!({
            "deliveryEmailAddress": "a@b.example", "deliveryTimeframe": "01",
            "giftCardAmount": "100", "giftCardCount": "01", "giftCardCurr": "826",
            "preOrderPurchaseInd": "02", "preOrderDate": "20270101", "reorderItemsInd": "01",
            "shipIndicator": "05",
        })
    );
    assert_eq!(
        areq["acctInfo"],
        json!({
            "chAccAgeInd": "05", "chAccChangeInd": "02", "chAccChange": "20261101",
            "chAccDate": "20200101", "chAccPwChangeInd": "01", "chAccPwChange": "20200101",
            "nbPurchaseAccount": "4", "txnActivityDay": "1", "txnActivityYear": "12",
            "paymentAccAge": "20210101", "paymentAccInd": "04", "shipAddressUsage": "20261115",
            "shipAddressUsageInd": "01", "shipNameIndicator": "01", "suspiciousAccActivity": "01",
        })
    );
    assert_eq!(
        areq["messageExtension"],
        json!([{
            "id": "A000000042", "name": "CB-SCORE", "criticalityIndicator": true,
            "data": {"score": "1"},
        }])
    );
    for name in ["threeRIInd", "sdkTransID", "threeDSRequestorDecMaxTime"] {
        assert_eq!(areq.get(name), None, "{name}");
    }
}

#[test]
fn app_and_merchant_requests_map_to_their_areq_elements() {
    let areq = areq_json(&app());
    assert_eq!(
        (&areq["deviceChannel"], &areq["sdkEphemPubKey"]["crv"]),
        (&json!("01"), &json!("P-256"))
    );
    assert!(areq.get("threeDSCompInd").is_none() && areq.get("browserIP").is_none());
    let areq = areq_json(&merchant());
    assert_eq!((&areq["deviceChannel"], &areq["threeRIInd"]), (&json!("03"), &json!("01")));
    assert_eq!(areq["threeDSRequestorDecMaxTime"], "00010");
    assert_eq!(areq["threeDSRequestorDecReqInd"], "Y");
    for name in ["addrMatch", "merchantRiskIndicator", "notificationURL", "transType"] {
        assert_eq!(areq.get(name), None, "{name}");
    }
}

/// The message for a 2.1.0 card contains no elements of 2.2.0.
#[test]
fn version_2_1_0_areq_has_no_2_2_0_elements() {
    let areq = areq_json(&RequestFixture { version: Version::V210, ..customer() });
    assert_eq!(areq["messageVersion"], "2.1.0");
    for name in ["browserJavascriptEnabled", "threeDSRequestorDecReqInd"] {
        assert_eq!(areq.get(name), None, "{name}");
    }
}

#[test]
fn authentication_parameters_follow_the_request() {
    let parameters = |fixture: &RequestFixture| {
        fixture.context().authentication_parameters(Scheme::Visa).unwrap()
    };
    assert_eq!(parameters(&customer()).decoupled_minutes, None);
    assert_eq!(parameters(&customer()).challenge_preference.unwrap().code(), "03");
    assert_eq!(parameters(&merchant()).decoupled_minutes, Some(10));
    let version_210 = RequestFixture { version: Version::V210, ..merchant() };
    assert_eq!(parameters(&version_210).decoupled_minutes, None);
    let mut unknown = customer();
    unknown.request.authentication_category = some("x");
    assert_eq!(unknown.context().authentication_parameters(Scheme::Visa), None);
}

#[test]
fn every_mapped_element_appears_in_an_areq() {
    let messages = [areq_json(&customer()), areq_json(&app()), areq_json(&merchant())];
    let mut names = BTreeSet::new();
    for element in elements::all_mappings() {
        assert!(names.insert(element.name), "{} is mapped twice", element.name);
        let pointer = format!("/{}", element.name.replace('.', "/"));
        let is_present = messages.iter().any(|it| it.pointer(&pointer).is_some());
        assert!(is_present, "{}", element.name);
    }
}

#[test]
fn attributes_without_emv_code_are_left_out() {
    let mut fixture = customer();
    fixture.account().account_last_changed = some("no-change");
    fixture.account().shipping_address_first_used = some("no-address");
    fixture.cardholder().account_id = some("");
    let areq = areq_json(&fixture);
    assert!(areq["acctInfo"].get("chAccChangeInd").is_none());
    assert!(areq["acctInfo"].get("shipAddressUsageInd").is_none());
    assert!(areq.get("acctID").is_none());
}

#[test]
fn invalid_element_is_reported_by_its_attribute_path() {
    let too_long = "x".repeat(3000);
    let cases: &[(AttributeChange, &str)] = &[
        (|it, _| it.purchase().currency = some("EUR"), "purchase_info.currency"),
        (|it, too_long| it.purchase().amount = Some(too_long), "purchase_info.amount"),
        (|it, _| it.purchase().currency = some("999"), "purchase_info.currency"),
        (|it, _| it.purchase().date = some("20261315000000"), "purchase_info.date"),
        (|it, _| it.purchase().installment_count = some("1"), "purchase_info.installment_count"),
        (|it, too_long| it.merchant().name = Some(too_long), "merchant_info.name"),
        (|it, too_long| it.cardholder().name = Some(too_long), "cardholder_info.name"),
        (|it, _| it.cardholder().name = some("J"), "cardholder_info.name"),
        (|it, _| it.cardholder().email = some("jo"), "cardholder_info.email"),
        (
            |it, _| it.account().transaction_count_day = some("1000"),
            "cardholder_info.account_info.transaction_count_day",
        ),
        (|it, _| it.device_info.browser_tz = some("UTC"), "device_info.browser_tz"),
        (|it, _| it.device_info.browser_color_depth = some("x"), "device_info.browser_color_depth"),
        (
            |it, too_long| it.request.message_extensions.as_mut().unwrap()[0].id = Some(too_long),
            "message_extensions",
        ),
        (
            |it, too_long| it.request.broadcast_info = Some(json!({"a": too_long.repeat(2)})),
            "broadcast_info",
        ),
        (
            |it, _| it.request.requestor_info.as_mut().unwrap().url = some("shop.example"),
            "requestor_info.url",
        ),
    ];
    for (change, path) in cases {
        let mut fixture = customer();
        change(&mut fixture, too_long.clone());
        let violations = fixture.build_areq().unwrap_err();
        let paths: Vec<_> = violations.iter().map(|it| it.path.as_ref()).collect();
        assert_eq!(paths, [*path], "{violations:?}");
        assert!(!violations[0].message.contains("xxx"));
    }
}

#[track_caller]
fn check_rule(change: fn(&mut RequestFixture), path: &str, rule: &str) {
    let mut fixture = customer();
    change(&mut fixture);
    let violations = fixture.build_areq().unwrap_err();
    let violation = violations.iter().find(|it| it.path == path);
    let message = violation.map_or("no violation", |it| it.message);
    assert!(message.contains(rule), "{path}: {message}");
}

#[test]
fn violation_states_the_rule_of_its_attribute() {
    check_rule(
        |it| it.purchase().currency = some("EUR"),
        "purchase_info.currency",
        "ISO 4217 numeric",
    );
    check_rule(
        |it| it.purchase().date = some("2026-11-18"),
        "purchase_info.date",
        "YYYYMMDDhhmmss",
    );
    let expiration = "purchase_info.recurring_expiration";
    check_rule(|it| it.purchase().recurring_expiration = some("1/1/2027"), expiration, "YYYYMMDD");
    check_rule(|it| it.cardholder().email = some("jo"), "cardholder_info.email", "email address");
    check_rule(|it| it.merchant().name = some(&"x".repeat(41)), "merchant_info.name", "1 to 40");
    check_rule(
        |it| it.merchant().country_code = some("DE"),
        "merchant_info.country_code",
        "3166-1",
    );
    let url = "requestor_info.url";
    check_rule(
        |it| it.request.requestor_info.as_mut().unwrap().url = some("x.example"),
        url,
        "https://",
    );
    check_rule(|it| it.request.purchase_info = None, "purchase_info", "for a payment");
    check_rule(
        |it| {
            let address = it.cardholder().billing_address.as_mut().unwrap();
            (address.state_code, address.country_code) = (some("BY"), None);
        },
        "cardholder_info.billing_address.country_code",
        "required by EMV if the address has a state_code",
    );
}

#[test]
fn extension_data_may_be_any_text() {
    for (data, expected) in [
        (json!({"a": 1}), json!({"a": 1})),
        (json!("{\"a\": 1}"), json!({"a": 1})),
        (json!("[1]"), json!({"value": "[1]"})),
        (json!("score 7"), json!({"value": "score 7"})),
        (json!(""), json!({"value": ""})),
    ] {
        let mut fixture = customer();
        fixture.request.message_extensions.as_mut().unwrap()[0].data = Some(data);
        assert_eq!(areq_json(&fixture)["messageExtension"][0]["data"], expected);
    }
}

#[test]
fn debug_output_contains_no_personal_data() {
    let fixture = customer();
    let printed =
        format!("{:?} {:?} {:?}", fixture.context(), fixture.build_areq(), fixture.request);
    for secret in ["4000020000000000", "jo@holder", "Holder", "80000", "192.0.2.7"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
