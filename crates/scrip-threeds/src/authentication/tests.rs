//! `ARes` and `RReq` as attributes of the API.

use serde_json::{Value, json};

use super::*;
use crate::message::{TransactionContext, parse_message};

const ID: &str = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
const VALUE: &str = "AAECAwQFBgcICQoLDA0ODxAREhM=";

fn parameters(scheme: Scheme, category: AuthenticationCategory) -> AuthenticationParameters {
    AuthenticationParameters {
        version: Version::V220,
        scheme,
        category,
        challenge_preference: Some(ChallengePreference::Requested),
        decoupled_minutes: None,
    }
}

fn authentication_from(elements: Value, parameters: AuthenticationParameters) -> Authentication {
    let mut object = json!({
        "messageType": "ARes", "messageVersion": "2.2.0", "threeDSServerTransID": ID,
        "acsTransID": ID, "dsTransID": ID, "acsReferenceNumber": "acs", "dsReferenceNumber": "ds",
    });
    object.as_object_mut().unwrap().extend(elements.as_object().unwrap().clone());
    let ares = parse_message::<ARes>(
        object.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap();
    Authentication::from_ares(&ares, parameters)
}

const PAYMENT: AuthenticationCategory = AuthenticationCategory::Payment;

#[test]
fn liability_shifts_only_for_payments_with_a_value() {
    let ares_with_value =
        |status: &str| json!({"transStatus": status, "authenticationValue": VALUE});
    let ares_with_reason = |status: &str| json!({"transStatus": status, "transStatusReason": "01"});
    let non_payment = AuthenticationCategory::NonPayment;
    for (ares, category, is_shifted) in [
        (ares_with_value("Y"), PAYMENT, true),
        (ares_with_value("A"), PAYMENT, true),
        (ares_with_value("Y"), non_payment, false),
        (json!({"transStatus": "Y"}), PAYMENT, false),
        (ares_with_value("I"), PAYMENT, false),
        (ares_with_value("U"), PAYMENT, false),
        (ares_with_reason("N"), PAYMENT, false),
        (ares_with_reason("R"), PAYMENT, false),
    ] {
        let label = ares.to_string();
        let outcome = authentication_from(ares, parameters(Scheme::Visa, category));
        assert_eq!(outcome.liability_shifted(), is_shifted, "{label}");
    }
}

#[test]
fn eci_comes_from_the_directory_server_or_else_the_scheme() {
    let y = json!({"transStatus": "Y", "authenticationValue": VALUE});
    let with_eci = json!({"transStatus": "Y", "authenticationValue": VALUE, "eci": "06"});
    let n = json!({"transStatus": "N", "transStatusReason": "01"});
    for (ares, scheme, eci) in [
        (&y, Scheme::Visa, Some("05")),
        (&y, Scheme::Mastercard, Some("02")),
        (&with_eci, Scheme::Visa, Some("06")),
        (&n, Scheme::Visa, None),
    ] {
        let outcome = authentication_from(ares.clone(), parameters(scheme, PAYMENT));
        assert_eq!(outcome.eci.as_ref().map(|it| it.expose()), eci);
    }
}

#[test]
fn authentication_has_every_attribute_of_the_ares() {
    let outcome = authentication_from(
        json!({
            "transStatus": "C", "transStatusReason": "85", "acsOperatorID": "op",
            "acsChallengeMandated": "Y", "authenticationType": "03",
            "acsURL": "https://acs.example/c", "cardholderInfo": "text", "whiteListStatus": "Y",
            "whiteListStatusSource": "03", "sdkTransID": ID,
            "acsRenderingType": {"acsInterface": "01", "acsUiTemplate": "04"},
            "acsSignedContent": "a.b.c",
            "messageExtension": [
                {"id": "i", "name": "n", "criticalityIndicator": false, "data": {"a": "b"}}
            ],
        }),
        parameters(Scheme::Visa, PAYMENT),
    );
    assert_eq!(outcome.parameters.version.code(), "2.2.0");
    assert_eq!((outcome.status.name(), outcome.status.code()), ("challenge", "C"));
    let reason = outcome.authentication_status_reason();
    assert_eq!(reason, Some("vmid-not-eligible-for-requested-program"));
    assert_eq!(outcome.reason.map(StatusReason::code).as_deref(), Some("85"));
    let preference = outcome.parameters.challenge_preference;
    assert_eq!(preference.and_then(ChallengePreference::name), Some("challenge-requested"));
    assert_eq!(preference.map(ChallengePreference::code).as_deref(), Some("03"));
    assert_eq!(outcome.challenge_type.and_then(ChallengeType::name), Some("out-of-band"));
    assert_eq!(outcome.whitelist_status.map(WhitelistStatus::name), Some("merchant-trusted"));
    assert_eq!(outcome.whitelist_source.and_then(WhitelistSource::name), Some("acs"));
    assert!(outcome.acs_rendering.is_some() && outcome.acs_signed_content.is_some());
    assert_eq!(outcome.message_extensions.as_ref().unwrap().items().len(), 1);
    let stored = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Authentication>(&stored).unwrap(), outcome);
    assert!(!format!("{outcome:?}").contains("acs.example"));
}

#[test]
fn result_replaces_status_and_keeps_ares_attributes() {
    let challenged = authentication_from(
        json!({
            "transStatus": "C", "acsChallengeMandated": "Y", "authenticationType": "02",
            "acsURL": "https://acs.example/c",
        }),
        parameters(Scheme::Visa, PAYMENT),
    );
    let result = json!({
        "messageType": "RReq", "messageVersion": "2.2.0", "threeDSServerTransID": ID,
        "acsTransID": ID, "dsTransID": ID, "messageCategory": "01", "transStatus": "N",
        "transStatusReason": "11", "interactionCounter": "02", "challengeCancel": "08",
    });
    let result = parse_message::<RReq>(
        result.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap();
    let completed = challenged.with_result(&result);
    assert_eq!((completed.status.code(), completed.directory_status.code()), ("N", "C"));
    assert_eq!(completed.authentication_status_reason(), Some("suspected-fraud"));
    assert_eq!(completed.challenge_attempts.as_ref().unwrap().expose(), "02");
    assert_eq!(completed.challenge_cancel_reason(), Some("unknown"));
    assert_eq!(completed.challenge_cancel.map(ChallengeCancel::code).as_deref(), Some("08"));
    assert_eq!(completed.acs_challenge_url, challenged.acs_challenge_url);
    assert_eq!(completed.challenge_type.and_then(ChallengeType::name), Some("dynamic"));
    assert!(completed.authentication_value.is_none() && !completed.liability_shifted());
}

#[test]
fn stored_authentication_with_invalid_value_is_rejected() {
    let outcome = authentication_from(
        json!({"transStatus": "Y", "authenticationValue": VALUE}),
        parameters(Scheme::Visa, PAYMENT),
    );
    let stored = serde_json::to_value(&outcome).unwrap();
    for (name, invalid_value) in [
        ("acs_transaction_id", json!("x")),
        ("authentication_value", json!("x")),
        ("status", json!("Z")),
        ("eci", json!("055")),
        ("more", json!(1)),
    ] {
        let mut altered = stored.clone();
        altered[name] = invalid_value;
        assert!(serde_json::from_value::<Authentication>(altered).is_err(), "{name}");
    }
}
