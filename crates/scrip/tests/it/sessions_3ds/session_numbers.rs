//! A 3-D Secure session is bound to the number of its card.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, Reply, SHARED, card, new_number, text},
    sessions_3ds::requests::{SESSIONS, browser},
};

const CHANGED: &str = "number of the card was changed";

fn swap(key: &str, token: &str) -> Reply {
    SHARED.patch(key, token, &json!({"data": {"number": new_number()}}))
}

fn session_of(token: &str) -> String {
    let body = json!({"token_id": token, "device_info": browser()});
    text(&SHARED.session(&ACME.private, &body), "id")
}

fn read(session: &str) -> Reply {
    SHARED.fetch(&ACME.private, &format!("{SESSIONS}/{session}"))
}

/// Makes a token of the intent; its id.
fn converted(intent: &str, more: &Value) -> String {
    let mut body = json!({"token_intent_id": intent});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    text(&SHARED.created(&ACME.private, &body), "id")
}

#[test]
fn swapped_number_is_never_sent_to_a_scheme() {
    let token = SHARED.card_token(&ACME);
    let session = session_of(&token);
    swap(&ACME.private, &token).is(200);
    SHARED.authenticate(&ACME.private, &session, &payment("Frictionless")).refused(409, CHANGED);
    assert!(SHARED.scripted.exchange(&session).is_none(), "nothing was sent");
    // Nothing was authenticated, so there is nothing to hide.
    read(&session).is(200);
    SHARED.authenticate(&ACME.private, &session_of(&token), &payment("Frictionless")).is(200);
}

#[test]
fn outcome_is_not_shown_for_a_swapped_number() {
    let token = SHARED.card_token(&ACME);
    let session = session_of(&token);
    SHARED.authenticate(&ACME.private, &session, &payment("Frictionless")).is(200);
    assert_eq!(read(&session).is(200)["authentication"]["authentication_status"], "successful");
    // Other attributes may change.
    SHARED.patch(&ACME.private, &token, &json!({"data": {"expiration_month": 9}})).is(200);
    read(&session).is(200);
    swap(&ACME.private, &token).is(200);
    read(&session).refused(409, CHANGED);
}

#[test]
fn challenge_result_is_not_shown_for_a_swapped_number() {
    let token = SHARED.card_token(&ACME);
    let session = SHARED.challenged(&ACME, session_of(&token));
    SHARED.tell_result(&session, "Y");
    SHARED.challenge_result(&ACME.private, &session).is(200);
    swap(&ACME.private, &token).is(200);
    SHARED.challenge_result(&ACME.private, &session).refused(409, CHANGED);
}

#[test]
fn another_card_under_the_id_of_a_deleted_one_has_no_outcome() {
    let mut body = card(&new_number());
    body["id"] = json!(format!("swapped-{}", new_number()));
    let token = text(&SHARED.created(&ACME.private, &body), "id");
    let session = session_of(&token);
    SHARED.authenticate(&ACME.private, &session, &payment("Frictionless")).is(200);
    SHARED.remove(&ACME.private, &format!("/tokens/{token}")).is(204);
    read(&session).is(200);
    body["data"]["number"] = json!(new_number());
    SHARED.created(&ACME.private, &body);
    read(&session).refused(409, CHANGED);
}

#[test]
fn session_of_an_intent_goes_on_with_the_token_it_became() {
    let intent = SHARED.card_intent(&ACME);
    let session = SHARED.browser_session_of(&ACME, &intent);
    let token = converted(&intent, &json!({}));
    let outcome = SHARED.authenticate(&ACME.private, &session, &payment("Frictionless")).is(200);
    assert_eq!(outcome["authentication_status"], "successful");
    read(&session).is(200);
    // The use of the number is recorded with the token, which is where it was read.
    let records = SHARED.fetch(&ACME.management, &format!("/logs?entity_id={token}")).is(200);
    let uses = |it: &Value| it["operation"] == "use_token" && it["outcome"] == "used";
    assert!(records["data"].as_array().unwrap().iter().any(uses), "{records}");
    swap(&ACME.private, &token).is(200);
    read(&session).refused(409, CHANGED);
}

#[test]
fn session_of_an_intent_moves_to_the_containers_of_the_token() {
    let rule = |container: &str| {
        let permissions = ["3ds:session:read", "3ds:session:authenticate"];
        let rule = json!({"container": container, "transform": "mask", "permissions": permissions});
        let body = json!({"name": "s", "type": "private", "rules": [rule]});
        text(&SHARED.post(&ACME.management, "/applications", &body).is(201), "key")
    };
    let (before, after) = (rule("/pci/high/"), rule("/merchant-a/"));
    let mut body = card(&new_number());
    body["containers"] = json!(["/pci/high/"]);
    let intent = text(&SHARED.post(&ACME.private, "/token-intents", &body).is(201), "id");
    let path = format!("{SESSIONS}/{}", SHARED.browser_session_of(&ACME, &intent));
    SHARED.fetch(&before, &path).is(200);
    SHARED.fetch(&after, &path).refused(403, "3ds:session:read");
    let token = converted(&intent, &json!({"containers": ["/merchant-a/"]}));
    SHARED.fetch(&before, &path).refused(403, "3ds:session:read");
    SHARED.fetch(&after, &path).is(200);
    SHARED.remove(&ACME.private, &format!("/tokens/{token}")).is(204);
    SHARED.fetch(&before, &path).refused(403, "3ds:session:read");
    SHARED.fetch(&after, &path).is(200);
}

#[test]
fn public_key_cannot_write_the_number_of_a_card_with_a_session() {
    let body = json!({"name": "p", "type": "public", "permissions": ["token:update"]});
    let public = text(&SHARED.post(&ACME.management, "/applications", &body).is(201), "key");
    let started = SHARED.ask("POST", "/sessions").key(&public).send().is(201);
    let lent = json!({"nonce": started["nonce"], "permissions": ["token:update"]});
    SHARED.post(&ACME.private, "/sessions/authorize", &lent).is(204);
    let browsers = [public, text(&started, "session_key")];
    let number = new_number();
    let token = SHARED.numbered_token(&ACME, &number);
    for key in &browsers {
        swap(key, &token).is(200);
    }
    SHARED.patch(&ACME.private, &token, &json!({"data": {"number": number}})).is(200);
    session_of(&token);
    for key in &browsers {
        swap(key, &token).refused(409, "3-D Secure session");
        // The same number too: the difference would tell whether a guess is right.
        let same = json!({"data": {"number": number}});
        SHARED.patch(key, &token, &same).refused(409, "3-D Secure session");
        SHARED.patch(key, &token, &json!({"data": {"expiration_month": 3}})).is(200);
    }
    swap(&ACME.private, &token).is(200);

    let intent = SHARED.card_intent(&ACME);
    SHARED.browser_session_of(&ACME, &intent);
    let token = converted(&intent, &json!({}));
    for key in &browsers {
        swap(key, &token).refused(409, "3-D Secure session");
    }
}
