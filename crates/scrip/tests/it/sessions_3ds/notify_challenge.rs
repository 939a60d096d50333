//! Notify Challenge.

use scrip_threeds::encoding::encode;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED},
    sessions_3ds::requests::{SESSIONS, is_refused_page, posted, script},
};

fn path(session: &str) -> String {
    format!("{SESSIONS}/{session}/challenge-notification")
}

fn response(session: &str, status: &str) -> Value {
    let answered = SHARED.scripted.exchange(session).unwrap().answered;
    json!({
        "messageType": "CRes", "messageVersion": "2.2.0", "threeDSServerTransID": session,
        "acsTransID": answered["acsTransID"], "challengeCompletionInd": "Y", "transStatus": status,
    })
}

fn encoded(message: &Value) -> String {
    encode(message.to_string().as_bytes())
}

fn notified(session: &str, status: &str) -> Value {
    let cres = encoded(&response(session, status));
    let reply = SHARED.form(&path(session), &[("cres", &cres), ("threeDSSessionData", "x")]);
    posted(script(&reply))
}

fn page(session: &str, word: &str) -> Value {
    json!({"type": "challenge", "id": session, "isCompleted": true, "authenticationStatus": word})
}

#[test]
fn challenge_page_shows_the_stored_result_and_not_the_message_of_the_browser() {
    for (result, word) in [("Y", "successful"), ("A", "successful"), ("N", "failed")] {
        for told in ["Y", "N"] {
            let session = SHARED.challenged_session(&ACME);
            SHARED.tell_result(&session, result);
            assert_eq!(notified(&session, told), page(&session, word), "{result} {told}");
        }
    }
}

#[test]
fn challenge_page_says_failed_while_there_is_no_result_and_decides_nothing() {
    for status in ["Y", "N"] {
        let session = SHARED.challenged_session(&ACME);
        assert_eq!(notified(&session, status), page(&session, "failed"));
        SHARED.challenge_result(&ACME.private, &session).is(404);
        SHARED.tell_result(&session, "N");
        let result = SHARED.challenge_result(&ACME.private, &session).is(200);
        assert_eq!(result["authentication_status"], "failed");
    }
}

/// Nothing proves it, so nothing changes; but nobody has to wait for the challenge any more.
#[test]
fn an_error_ends_the_waiting() {
    let session = SHARED.challenged_session(&ACME);
    let reply = SHARED.form(&path(&session), &[("erro", "e30")]);
    let expected = json!({
        "type": "challenge", "id": session, "isCompleted": false, "authenticationStatus": "failed",
    });
    assert_eq!(posted(script(&reply)), expected);
    let cres = encoded(&response(&session, "Y"));
    let reply = SHARED.form(&path(&session), &[("erro", "e30"), ("cres", &cres)]);
    assert_eq!(posted(script(&reply)), page(&session, "failed"));
    SHARED.tell_result(&session, "Y");
    let reply = SHARED.form(&path(&session), &[("erro", "e30"), ("cres", &cres)]);
    assert_eq!(posted(script(&reply)), page(&session, "successful"));
}

#[test]
fn what_is_not_about_the_challenge_changes_nothing() {
    let (session, other) = (SHARED.challenged_session(&ACME), SHARED.challenged_session(&ACME));
    let refuse = |cres: &str, status: u16| {
        is_refused_page(&SHARED.form(&path(&session), &[("cres", cres)]), status);
    };
    refuse("", 400);
    refuse("4242424242424242", 400);
    refuse(&encoded(&response(&other, "Y")), 400);
    let mut foreign = response(&session, "Y");
    foreign["acsTransID"] = response(&other, "Y")["acsTransID"].clone();
    refuse(&encoded(&foreign), 400);
    is_refused_page(&SHARED.form(&path(&session), &[]), 400);
    is_refused_page(&SHARED.form(&path("nobodys"), &[("erro", "e30")]), 404);
    let unknown = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";
    let cres = encoded(&response(&session, "Y"));
    is_refused_page(&SHARED.form(&path(unknown), &[("cres", &cres)]), 404);
    // Without a challenge there is none to end.
    let new = SHARED.browser_session(&ACME);
    is_refused_page(&SHARED.form(&path(&new), &[("cres", &cres)]), 400);
    SHARED.tell_result(&session, "Y");
    SHARED.challenge_result(&ACME.private, &session).is(200);
}
