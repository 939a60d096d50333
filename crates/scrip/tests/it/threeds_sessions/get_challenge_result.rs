//! Get Challenge Result.

use scrip_testing::requests::assert_members;
use serde_json::json;

use crate::{
    harness::server::{ACME, SERVER},
    threeds_sessions::{
        requests::{SESSIONS, merchant_payment},
        scripted_servers::ACS_URL,
    },
};

#[test]
fn challenge_result_is_that_of_the_directory_server() {
    let session = SERVER.create_challenged_session(&ACME);
    SERVER.get_challenge_result(&ACME.private, &session).expect_problem(404, "no challenge result");
    SERVER.send_result(&session, "Y");
    let result = SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
    let expected = json!({
        "session_id": session, "authentication_status": "successful",
        "authentication_status_code": "Y", "directory_status_code": "C", "eci": "05",
        "challenge_attempts": "01", "liability_shifted": true, "acs_challenge_url": ACS_URL,
        "authentication_challenge_type": "dynamic",
    });
    assert_members(&result, &expected);
    assert!(result["authentication_value"].is_string());
    assert_eq!(SERVER.get_challenge_result(&ACME.private, &session).expect_status(200), result);
}

#[test]
fn failed_challenge_result_has_a_reason() {
    let session = SERVER.create_challenged_session(&ACME);
    SERVER.send_result(&session, "N");
    let result = SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
    let expected = json!({
        "authentication_status": "failed",
        "authentication_status_reason": "card-authentication-failed",
        "authentication_status_reason_code": "01", "liability_shifted": false,
    });
    assert_members(&result, &expected);
    assert!(result.get("authentication_value").is_none());
}

#[test]
fn decoupled_challenge_has_a_result() {
    let body = json!({"token_intent_id": SERVER.create_card_intent(&ACME), "type": "merchant"});
    let session = SERVER.create_session_id(&ACME.private, &body);
    let outcome = SERVER.authenticate(&ACME.private, &session, &merchant_payment("Decoupled"));
    let expected = json!({"authentication_status": "decoupled_challenge",
        "acs_decoupled_authentication": "Y", "cardholder_info": "Your bank will call you."});
    assert_members(&outcome.expect_status(200), &expected);
    SERVER.get_challenge_result(&ACME.private, &session).expect_problem(404, "no challenge result");
    SERVER.send_result(&session, "A");
    let result = SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
    assert_eq!(result["authentication_status"], "attempted");
}

#[test]
fn challenge_result_without_a_challenge_is_404() {
    let session = SERVER.create_browser_session(&ACME);
    let path = format!("{SESSIONS}/{session}/challenge-result");
    SERVER.get_path(&ACME.private, &path).expect_problem(404, "no challenge result");
    SERVER.authenticate_as(&ACME.private, &session, "Frictionless").expect_status(200);
    SERVER.get_path(&ACME.private, &path).expect_problem(404, "no challenge result");
    SERVER.get_challenge_result(&ACME.private, "nobodys").expect_status(404);
}
