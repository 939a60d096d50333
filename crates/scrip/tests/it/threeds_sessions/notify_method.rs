//! Notify Method.

use scrip_threeds::encoding::encode;
use serde_json::json;

use crate::{
    harness::server::{ACME, SERVER, TestResponse},
    threeds_sessions::requests::{SESSIONS, expect_rejection_page, page_script, posted_message},
};

fn path(session: &str) -> String {
    format!("{SESSIONS}/{session}/method-notification")
}

fn method_data(session: &str) -> String {
    encode(json!({"threeDSServerTransID": session}).to_string().as_bytes())
}

fn notify(session: &str) -> TestResponse {
    SERVER.post_form(&path(session), &[("threeDSMethodData", &method_data(session))])
}

fn completion_indicator(session: &str) -> serde_json::Value {
    let session_body = SERVER.get_session(&ACME.private, session).expect_status(200);
    session_body["method"]["method_completion_indicator"].clone()
}

#[test]
fn method_notification_completes_the_session_and_posts_a_message() {
    let session = SERVER.create_browser_session(&ACME);
    assert!(completion_indicator(&session).is_null());
    // A browser may post the notification repeatedly.
    for _ in 0..2 {
        let response = notify(&session);
        let message = posted_message(page_script(&response));
        assert_eq!(message, json!({"type": "method", "id": session, "isCompleted": true}));
    }
    assert_eq!(completion_indicator(&session), "Y");
    SERVER.authenticate_as(&ACME.private, &session, "Frictionless").expect_status(200);
    assert_eq!(SERVER.directory_servers.exchange(&session).unwrap().request["threeDSCompInd"], "Y");
}

#[test]
fn method_popup_closes_itself() {
    let session = SERVER.create_browser_session(&ACME);
    let path = format!("{}?mode=redirect", path(&session));
    let response = SERVER.post_form(&path, &[("threeDSMethodData", &method_data(&session))]);
    assert_eq!(page_script(&response), "window.close();");
    assert_eq!(completion_indicator(&session), "Y");
}

#[test]
fn every_notification_page_has_its_own_nonce() {
    let session = SERVER.create_browser_session(&ACME);
    let policy = || notify(&session).headers["content-security-policy"].clone();
    assert_ne!(policy(), policy());
}

#[test]
fn invalid_method_notification_changes_nothing() {
    let (session, other_session) =
        (SERVER.create_browser_session(&ACME), SERVER.create_browser_session(&ACME));
    let post_form = |fields: &[(&str, &str)]| SERVER.post_form(&path(&session), fields);
    expect_rejection_page(&post_form(&[]), 400);
    expect_rejection_page(&post_form(&[("threeDSMethodData", "4242424242424242")]), 400);
    expect_rejection_page(&post_form(&[("threeDSMethodData", &method_data(&other_session))]), 400);
    let encoded_data = method_data(&session);
    expect_rejection_page(
        &post_form(&[("threeDSMethodData", &encoded_data), ("threeDSMethodData", &encoded_data)]),
        400,
    );
    expect_rejection_page(&post_form(&[("threeDSMethodData", &"A".repeat(64 * 1024))]), 413);
    let request =
        SERVER.request("POST", &path(&session)).json(&json!({"threeDSMethodData": encoded_data}));
    expect_rejection_page(&request.send(), 415);
    for unknown_session in ["8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "%3Cb%3E", "nobodys"] {
        let response =
            SERVER.post_form(&path(unknown_session), &[("threeDSMethodData", &encoded_data)]);
        expect_rejection_page(&response, 404);
    }
    assert!(completion_indicator(&session).is_null());
    assert!(completion_indicator(&other_session).is_null());
    // A card number in a wrong field is not repeated.
    assert!(!post_form(&[("threeDSMethodData", "4242424242424242")]).text.contains("4242"));
}
