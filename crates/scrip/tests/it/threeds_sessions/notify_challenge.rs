//! Notify Challenge.

use scrip_threeds::encoding::encode;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER},
    threeds_sessions::requests::{SESSIONS, expect_rejection_page, page_script, posted_message},
};

fn path(session: &str) -> String {
    format!("{SESSIONS}/{session}/challenge-notification")
}

fn challenge_response(session: &str, status: &str) -> Value {
    let authentication = SERVER.directory_servers.exchange(session).unwrap().response;
    json!({
        "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": session,
        "acsTransID": authentication["acsTransID"], "challengeCompletionInd": "Y", "transStatus": status,
    })
}

fn encode_message(message: &Value) -> String {
    encode(message.to_string().as_bytes())
}

fn notify_and_read_message(session: &str, status: &str) -> Value {
    let cres = encode_message(&challenge_response(session, status));
    let response =
        SERVER.post_form(&path(session), &[("cres", &cres), ("threeDSSessionData", "x")]);
    posted_message(page_script(&response))
}

fn expected_message(session: &str, status: &str) -> Value {
    json!({"type": "challenge", "id": session, "isCompleted": true, "authenticationStatus": status})
}

#[test]
fn challenge_page_shows_the_stored_result_not_the_browser_message() {
    for (result, word) in [("Y", "successful"), ("A", "successful"), ("N", "failed")] {
        for browser_status in ["Y", "N"] {
            let session = SERVER.create_challenged_session(&ACME);
            SERVER.send_result(&session, result);
            let message = notify_and_read_message(&session, browser_status);
            let expected = expected_message(&session, word);
            assert_eq!(message, expected, "result {result}, browser message {browser_status}");
        }
    }
}

#[test]
fn challenge_page_shows_failed_before_the_result_and_stores_nothing() {
    for status in ["Y", "N"] {
        let session = SERVER.create_challenged_session(&ACME);
        assert_eq!(notify_and_read_message(&session, status), expected_message(&session, "failed"));
        SERVER.get_challenge_result(&ACME.private, &session).expect_status(404);
        SERVER.send_result(&session, "N");
        let result = SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
        assert_eq!(result["authentication_status"], "failed");
    }
}

/// The notification is not authenticated, so it changes nothing. The page still reports the end of
/// the challenge.
#[test]
fn error_notification_reports_an_incomplete_challenge() {
    let session = SERVER.create_challenged_session(&ACME);
    let response = SERVER.post_form(&path(&session), &[("erro", "e30")]);
    let expected = json!({
        "type": "challenge", "id": session, "isCompleted": false, "authenticationStatus": "failed",
    });
    assert_eq!(posted_message(page_script(&response)), expected);
    let cres = encode_message(&challenge_response(&session, "Y"));
    let response = SERVER.post_form(&path(&session), &[("erro", "e30"), ("cres", &cres)]);
    assert_eq!(posted_message(page_script(&response)), expected_message(&session, "failed"));
    SERVER.send_result(&session, "Y");
    let response = SERVER.post_form(&path(&session), &[("erro", "e30"), ("cres", &cres)]);
    assert_eq!(posted_message(page_script(&response)), expected_message(&session, "successful"));
}

#[test]
fn invalid_challenge_notification_changes_nothing() {
    let (session, other_session) =
        (SERVER.create_challenged_session(&ACME), SERVER.create_challenged_session(&ACME));
    let expect_rejected = |cres: &str, status: u16| {
        expect_rejection_page(&SERVER.post_form(&path(&session), &[("cres", cres)]), status);
    };
    expect_rejected("", 400);
    expect_rejected("4242424242424242", 400);
    expect_rejected(&encode_message(&challenge_response(&other_session, "Y")), 400);
    let mut foreign_message = challenge_response(&session, "Y");
    foreign_message["acsTransID"] = challenge_response(&other_session, "Y")["acsTransID"].clone();
    expect_rejected(&encode_message(&foreign_message), 400);
    expect_rejection_page(&SERVER.post_form(&path(&session), &[]), 400);
    expect_rejection_page(&SERVER.post_form(&path("nobodys"), &[("erro", "e30")]), 404);
    let unknown_session = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
    let cres = encode_message(&challenge_response(&session, "Y"));
    expect_rejection_page(&SERVER.post_form(&path(unknown_session), &[("cres", &cres)]), 404);
    // A session without a challenge rejects the notification.
    let session_without_challenge = SERVER.create_browser_session(&ACME);
    let without_challenge = path(&session_without_challenge);
    expect_rejection_page(&SERVER.post_form(&without_challenge, &[("cres", &cres)]), 400);
    SERVER.send_result(&session, "Y");
    SERVER.get_challenge_result(&ACME.private, &session).expect_status(200);
}
