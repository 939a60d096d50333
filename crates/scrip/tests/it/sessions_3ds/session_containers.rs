//! 3-D Secure permissions are decided in the containers of the card.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED, card, new_number, text},
    sessions_3ds::requests::{SESSIONS, browser},
};

const THREEDS: [&str; 3] = ["3ds:session:create", "3ds:session:read", "3ds:session:authenticate"];

/// A private application made over HTTP: its path and its key.
fn application(permissions: &[&str], rules: &Value) -> (String, String) {
    let body = json!({"name": "s", "type": "private", "permissions": permissions, "rules": rules});
    let made = SHARED.post(&ACME.management, "/applications", &body).is(201);
    (format!("/applications/{}", text(&made, "id")), text(&made, "key"))
}

fn rule(container: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": "mask", "permissions": permissions})
}

/// A card in this container.
fn card_in(container: &str) -> String {
    let mut body = card(&new_number());
    body["containers"] = json!([container]);
    text(&SHARED.created(&ACME.private, &body), "id")
}

fn new_session(token: &str) -> Value {
    json!({"token_id": token, "device_info": browser()})
}

/// Creates a session for the card, authenticates it and reads it.
#[track_caller]
fn check(key: &str, token: &str, is_allowed: bool) {
    let reply = SHARED.post(key, SESSIONS, &new_session(token));
    if is_allowed {
        let path = format!("{SESSIONS}/{}", text(&reply.is(201), "id"));
        SHARED.post(key, &format!("{path}/authenticate"), &payment("Frictionless")).is(200);
        SHARED.fetch(key, &path).is(200);
    } else {
        reply.refused(403, "3ds:session:create");
    }
}

#[test]
fn threeds_rule_covers_its_container_only() {
    let (_, key) = application(&[], &json!([rule("/merchant-a/", &THREEDS)]));
    check(&key, &card_in("/merchant-a/"), true);
    check(&key, &card_in("/merchant-a/vip/"), true);
    check(&key, &card_in("/merchant-b/"), false);
    check(&key, &card_in("/merchant-ab/"), false);
}

#[test]
fn plain_threeds_permission_covers_the_containers_of_the_rules_only() {
    let rules =
        json!([rule("/merchant-a/", &["token:read"]), rule("/merchant-c/", &["token:read"])]);
    let (_, ruled) = application(&THREEDS, &rules);
    check(&ruled, &card_in("/merchant-a/"), true);
    check(&ruled, &card_in("/merchant-c/"), true);
    check(&ruled, &card_in("/merchant-b/"), false);
    let (_, unruled) = application(&THREEDS, &json!([]));
    check(&unruled, &card_in("/merchant-b/"), true);
}

#[test]
fn refusal_is_the_same_for_a_card_and_for_another_token() {
    let (_, key) = application(&[], &json!([rule("/merchant-a/", &THREEDS)]));
    let other = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    let other = text(&SHARED.created(&ACME.private, &other), "id");
    check(&key, &other, false);
    check(&key, &card_in("/merchant-b/"), false);
}

#[test]
fn session_of_a_foreign_container_is_neither_read_nor_changed() {
    let (_, own) = application(&[], &json!([rule("/merchant-b/", &THREEDS)]));
    let (_, foreign) = application(&[], &json!([rule("/merchant-a/", &THREEDS)]));
    let token = card_in("/merchant-b/");
    let body = json!({"token_id": token, "device": "app"});
    let path = format!("{SESSIONS}/{}", text(&SHARED.session(&own, &body), "id"));
    let refused = |path: &str| {
        SHARED.fetch(&foreign, path).refused(403, "3ds:session:read");
        let result = SHARED.fetch(&foreign, &format!("{path}/challenge-result"));
        result.refused(403, "3ds:session:authenticate");
        let asked = SHARED.post(&foreign, &format!("{path}/authenticate"), &payment("Challenged"));
        asked.refused(403, "3ds:session:authenticate");
        let device = json!({"device_info": crate::sessions_3ds::requests::app()});
        SHARED.put(&foreign, path, &device).refused(403, "3ds:session:create");
    };
    refused(&path);
    SHARED.fetch(&own, &path).is(200);
    // Also when the card is gone: the session remembers where it was.
    SHARED.remove(&ACME.private, &format!("/tokens/{token}")).is(204);
    refused(&path);
    SHARED.fetch(&own, &path).is(200);
}

#[test]
fn moved_card_takes_its_sessions_with_it() {
    let (_, a) = application(&[], &json!([rule("/merchant-a/", &THREEDS)]));
    let (_, b) = application(&[], &json!([rule("/merchant-b/", &THREEDS)]));
    let token = card_in("/merchant-a/");
    let path = format!("{SESSIONS}/{}", text(&SHARED.session(&a, &new_session(&token)), "id"));
    SHARED.fetch(&b, &path).refused(403, "3ds:session:read");
    let moved = json!({"containers": ["/merchant-b/"]});
    SHARED.patch(&ACME.private, &token, &moved).is(200);
    SHARED.fetch(&a, &path).refused(403, "3ds:session:read");
    SHARED.fetch(&b, &path).is(200);
}

#[test]
fn replay_of_a_session_needs_the_right_in_its_containers() {
    let (at, key) = application(&[], &json!([rule("/merchant-a/", &THREEDS)]));
    let body = new_session(&card_in("/merchant-a/"));
    let ask = || SHARED.ask("POST", SESSIONS).key(&key).once("in-a").json(&body).send();
    let first = ask().is(201);
    assert_eq!(ask().is(201), first);
    let elsewhere = json!({"name": "s", "rules": [rule("/merchant-b/", &THREEDS)]});
    SHARED.put(&ACME.management, &at, &elsewhere).is(200);
    ask().refused(403, "3ds:session:create");
}

#[test]
fn access_session_with_threeds_rights_is_bound_to_its_rule() {
    let (_, lender) = application(&THREEDS, &json!([]));
    let session = SHARED.ask("POST", "/sessions").key(&ACME.public).send().is(201);
    let body = json!({"nonce": session["nonce"], "rules": [rule("/merchant-a/", &THREEDS)]});
    SHARED.post(&lender, "/sessions/authorize", &body).is(204);
    let key = text(&session, "session_key");
    check(&key, &card_in("/merchant-a/"), true);
    check(&key, &card_in("/merchant-b/"), false);
    // An application with rules cannot lend more than they cover.
    let (_, ruled) = application(&[], &json!([rule("/merchant-a/", &THREEDS)]));
    let session = SHARED.ask("POST", "/sessions").key(&ACME.public).send().is(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["3ds:session:create"]});
    SHARED.post(&ruled, "/sessions/authorize", &body).refused(403, "3ds:session:create");
}
