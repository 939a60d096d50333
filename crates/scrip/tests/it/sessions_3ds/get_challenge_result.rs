//! Get Challenge Result.

use serde_json::json;

use crate::{
    harness::server::{ACME, SHARED, text},
    sessions_3ds::{
        requests::{SESSIONS, merchant_payment, payment},
        scripted_servers::ACS_URL,
    },
};

#[test]
fn the_result_is_what_the_directory_server_told() {
    let session = SHARED.challenged_session(&ACME);
    SHARED.challenge_result(&ACME.private, &session).refused(404, "no challenge result");
    SHARED.tell_result(&session, "Y");
    let result = SHARED.challenge_result(&ACME.private, &session).is(200);
    assert_eq!(result["session_id"], json!(session));
    assert_eq!(result["authentication_status"], "successful");
    assert_eq!(
        (&result["authentication_status_code"], &result["directory_status_code"]),
        (&json!("Y"), &json!("C"))
    );
    assert_eq!((&result["eci"], &result["challenge_attempts"]), (&json!("05"), &json!("01")));
    assert_eq!(result["liability_shifted"], true);
    assert_eq!(result["acs_challenge_url"], ACS_URL);
    assert_eq!(result["authentication_challenge_type"], "dynamic");
    assert!(result["authentication_value"].is_string());
    assert_eq!(SHARED.challenge_result(&ACME.private, &session).is(200), result);
}

#[test]
fn a_failed_challenge_says_why() {
    let session = SHARED.challenged_session(&ACME);
    SHARED.tell_result(&session, "N");
    let result = SHARED.challenge_result(&ACME.private, &session).is(200);
    assert_eq!(result["authentication_status"], "failed");
    assert_eq!(result["authentication_status_reason"], "card-authentication-failed");
    assert_eq!(result["authentication_status_reason_code"], "01");
    assert_eq!(result["liability_shifted"], false);
    assert!(result.get("authentication_value").is_none());
}

#[test]
fn a_decoupled_challenge_ends_the_same_way() {
    let body = json!({"token_intent_id": SHARED.card_intent(&ACME), "type": "merchant"});
    let session = text(&SHARED.session(&ACME.private, &body), "id");
    let outcome =
        SHARED.authenticate(&ACME.private, &session, &merchant_payment("Decoupled")).is(200);
    assert_eq!(outcome["authentication_status"], "decoupled_challenge");
    assert_eq!(outcome["acs_decoupled_authentication"], "Y");
    assert_eq!(outcome["cardholder_info"], "Your bank will call you.");
    SHARED.challenge_result(&ACME.private, &session).refused(404, "no challenge result");
    SHARED.tell_result(&session, "A");
    let result = SHARED.challenge_result(&ACME.private, &session).is(200);
    assert_eq!(result["authentication_status"], "attempted");
}

#[test]
fn without_a_challenge_there_is_no_result() {
    let session = SHARED.browser_session(&ACME);
    let path = format!("{SESSIONS}/{session}/challenge-result");
    SHARED.fetch(&ACME.private, &path).refused(404, "no challenge result");
    SHARED.authenticate(&ACME.private, &session, &payment("Frictionless")).is(200);
    SHARED.fetch(&ACME.private, &path).refused(404, "no challenge result");
    SHARED.challenge_result(&ACME.private, "nobodys").is(404);
}
