//! Get Challenge Result.

use serde_json::json;

use crate::{
    harness::server::{ACME, SERVER, text_field},
    threeds_sessions::{
        requests::{SESSIONS, merchant_payment, payment},
        scripted_servers::ACS_URL,
    },
};

#[test]
fn challenge_result_is_that_of_the_directory_server() {
    let session = SERVER.create_challenged_session(&ACME);
    SERVER.get_challenge_result(&ACME.private, &session).expect_problem(404, "no challenge result");
    SERVER.send_result(&session, "Y");
    let result = SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
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
    assert_eq!(SERVER.get_challenge_result(&ACME.private, &session).expect_status(200), result);
}

#[test]
fn failed_challenge_result_has_a_reason() {
    let session = SERVER.create_challenged_session(&ACME);
    SERVER.send_result(&session, "N");
    let result = SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
    assert_eq!(result["authentication_status"], "failed");
    assert_eq!(result["authentication_status_reason"], "card-authentication-failed");
    assert_eq!(result["authentication_status_reason_code"], "01");
    assert_eq!(result["liability_shifted"], false);
    assert!(result.get("authentication_value").is_none());
}

#[test]
fn decoupled_challenge_has_a_result() {
    let body = json!({"token_intent_id": SERVER.create_card_intent(&ACME), "type": "merchant"});
    let session = text_field(&SERVER.create_session(&ACME.private, &body), "id");
    let outcome = SERVER
        .authenticate(&ACME.private, &session, &merchant_payment("Decoupled"))
        .expect_status(200);
    assert_eq!(outcome["authentication_status"], "decoupled_challenge");
    assert_eq!(outcome["acs_decoupled_authentication"], "Y");
    assert_eq!(outcome["cardholder_info"], "Your bank will call you.");
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
    SERVER.authenticate(&ACME.private, &session, &payment("Frictionless")).expect_status(200);
    SERVER.get_path(&ACME.private, &path).expect_problem(404, "no challenge result");
    SERVER.get_challenge_result(&ACME.private, "nobodys").expect_status(404);
}
