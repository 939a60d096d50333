//! Notify Method.

use scrip_testing::requests::payment;
use scrip_threeds::encoding::encode;
use serde_json::json;

use crate::{
    harness::server::{ACME, Reply, SHARED},
    sessions_3ds::requests::{SESSIONS, is_refused_page, posted, script},
};

fn path(session: &str) -> String {
    format!("{SESSIONS}/{session}/method-notification")
}

fn data(session: &str) -> String {
    encode(json!({"threeDSServerTransID": session}).to_string().as_bytes())
}

fn notify(session: &str) -> Reply {
    SHARED.form(&path(session), &[("threeDSMethodData", &data(session))])
}

fn indicator(session: &str) -> serde_json::Value {
    let found = SHARED.fetch(&ACME.private, &format!("{SESSIONS}/{session}")).is(200);
    found["method"]["method_completion_indicator"].clone()
}

#[test]
fn the_page_tells_the_one_around_it_and_the_session_knows() {
    let session = SHARED.browser_session(&ACME);
    assert!(indicator(&session).is_null());
    // As often as a browser likes.
    for _ in 0..2 {
        let reply = notify(&session);
        let message = posted(script(&reply));
        assert_eq!(message, json!({"type": "method", "id": session, "isCompleted": true}));
    }
    assert_eq!(indicator(&session), "Y");
    SHARED.authenticate(&ACME.private, &session, &payment("Frictionless")).is(200);
    assert_eq!(SHARED.scripted.exchange(&session).unwrap().asked["threeDSCompInd"], "Y");
}

#[test]
fn a_window_of_its_own_is_closed() {
    let session = SHARED.browser_session(&ACME);
    let path = format!("{}?mode=redirect", path(&session));
    let reply = SHARED.form(&path, &[("threeDSMethodData", &data(&session))]);
    assert_eq!(script(&reply), "window.close();");
    assert_eq!(indicator(&session), "Y");
}

#[test]
fn every_page_has_a_nonce_of_its_own() {
    let session = SHARED.browser_session(&ACME);
    let policy = || notify(&session).headers["content-security-policy"].clone();
    assert_ne!(policy(), policy());
}

#[test]
fn what_is_not_about_the_session_changes_nothing() {
    let (session, other) = (SHARED.browser_session(&ACME), SHARED.browser_session(&ACME));
    let form = |fields: &[(&str, &str)]| SHARED.form(&path(&session), fields);
    is_refused_page(&form(&[]), 400);
    is_refused_page(&form(&[("threeDSMethodData", "4242424242424242")]), 400);
    is_refused_page(&form(&[("threeDSMethodData", &data(&other))]), 400);
    let twice = data(&session);
    is_refused_page(&form(&[("threeDSMethodData", &twice), ("threeDSMethodData", &twice)]), 400);
    is_refused_page(&form(&[("threeDSMethodData", &"A".repeat(64 * 1024))]), 413);
    let ask = SHARED.ask("POST", &path(&session)).json(&json!({"threeDSMethodData": twice}));
    is_refused_page(&ask.send(), 415);
    for nobodys in ["8a880dc0-d2d2-4067-bcb1-b08d1690b26e", "%3Cb%3E", "nobodys"] {
        let reply = SHARED.form(&path(nobodys), &[("threeDSMethodData", &twice)]);
        is_refused_page(&reply, 404);
    }
    assert!(indicator(&session).is_null() && indicator(&other).is_null());
    // A card number in the wrong place is not repeated.
    assert!(!form(&[("threeDSMethodData", "4242424242424242")]).text.contains("4242"));
}
