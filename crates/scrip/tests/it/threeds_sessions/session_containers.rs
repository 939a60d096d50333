//! 3-D Secure permissions are decided in the containers of the card.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SHARED_SERVER, card_body, text_field, unique_card_number},
    threeds_sessions::requests::{SESSIONS, browser_info},
};

const THREEDS_PERMISSIONS: [&str; 3] =
    ["3ds:session:create", "3ds:session:read", "3ds:session:authenticate"];

/// A private application made over HTTP: its path and its key.
fn create_application(permissions: &[&str], rules: &Value) -> (String, String) {
    let body = json!({"name": "s", "type": "private", "permissions": permissions, "rules": rules});
    let made = SHARED_SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    (format!("/applications/{}", text_field(&made, "id")), text_field(&made, "key"))
}

fn rule(container: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": "mask", "permissions": permissions})
}

/// A card in this container.
fn create_card_in(container: &str) -> String {
    let mut body = card_body(&unique_card_number());
    body["containers"] = json!([container]);
    text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &body), "id")
}

fn session_body(token: &str) -> Value {
    json!({"token_id": token, "device_info": browser_info()})
}

/// Creates a session for the card, authenticates it and reads it.
#[track_caller]
fn check_session(key: &str, token: &str, is_allowed: bool) {
    let reply = SHARED_SERVER.post(key, SESSIONS, &session_body(token));
    if is_allowed {
        let path = format!("{SESSIONS}/{}", text_field(&reply.expect_status(201), "id"));
        SHARED_SERVER
            .post(key, &format!("{path}/authenticate"), &payment("Frictionless"))
            .expect_status(200);
        SHARED_SERVER.get_path(key, &path).expect_status(200);
    } else {
        reply.expect_problem(403, "3ds:session:create");
    }
}

#[test]
fn threeds_rule_covers_its_container_only() {
    let (_, key) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    check_session(&key, &create_card_in("/merchant-a/"), true);
    check_session(&key, &create_card_in("/merchant-a/vip/"), true);
    check_session(&key, &create_card_in("/merchant-b/"), false);
    check_session(&key, &create_card_in("/merchant-ab/"), false);
}

#[test]
fn plain_threeds_permission_covers_the_containers_of_the_rules_only() {
    let rules =
        json!([rule("/merchant-a/", &["token:read"]), rule("/merchant-c/", &["token:read"])]);
    let (_, ruled) = create_application(&THREEDS_PERMISSIONS, &rules);
    check_session(&ruled, &create_card_in("/merchant-a/"), true);
    check_session(&ruled, &create_card_in("/merchant-c/"), true);
    check_session(&ruled, &create_card_in("/merchant-b/"), false);
    let (_, unruled) = create_application(&THREEDS_PERMISSIONS, &json!([]));
    check_session(&unruled, &create_card_in("/merchant-b/"), true);
}

#[test]
fn denial_is_the_same_for_a_card_and_for_another_token() {
    let (_, key) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let other = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    let other = text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &other), "id");
    check_session(&key, &other, false);
    check_session(&key, &create_card_in("/merchant-b/"), false);
}

#[test]
fn session_in_a_foreign_container_cannot_be_read_or_changed() {
    let (_, own) = create_application(&[], &json!([rule("/merchant-b/", &THREEDS_PERMISSIONS)]));
    let (_, foreign) =
        create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let token = create_card_in("/merchant-b/");
    let body = json!({"token_id": token, "device": "app"});
    let path =
        format!("{SESSIONS}/{}", text_field(&SHARED_SERVER.create_session(&own, &body), "id"));
    let refused = |path: &str| {
        SHARED_SERVER.get_path(&foreign, path).expect_problem(403, "3ds:session:read");
        let result = SHARED_SERVER.get_path(&foreign, &format!("{path}/challenge-result"));
        result.expect_problem(403, "3ds:session:authenticate");
        let asked =
            SHARED_SERVER.post(&foreign, &format!("{path}/authenticate"), &payment("Challenged"));
        asked.expect_problem(403, "3ds:session:authenticate");
        let device = json!({"device_info": crate::threeds_sessions::requests::app_info()});
        SHARED_SERVER.put(&foreign, path, &device).expect_problem(403, "3ds:session:create");
    };
    refused(&path);
    SHARED_SERVER.get_path(&own, &path).expect_status(200);
    // Also when the card is gone: the session remembers where it was.
    SHARED_SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    refused(&path);
    SHARED_SERVER.get_path(&own, &path).expect_status(200);
}

#[test]
fn sessions_follow_their_card_to_another_container() {
    let (_, a) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let (_, b) = create_application(&[], &json!([rule("/merchant-b/", &THREEDS_PERMISSIONS)]));
    let token = create_card_in("/merchant-a/");
    let path = format!(
        "{SESSIONS}/{}",
        text_field(&SHARED_SERVER.create_session(&a, &session_body(&token)), "id")
    );
    SHARED_SERVER.get_path(&b, &path).expect_problem(403, "3ds:session:read");
    let moved = json!({"containers": ["/merchant-b/"]});
    SHARED_SERVER.patch_token(&ACME.private, &token, &moved).expect_status(200);
    SHARED_SERVER.get_path(&a, &path).expect_problem(403, "3ds:session:read");
    SHARED_SERVER.get_path(&b, &path).expect_status(200);
}

#[test]
fn replay_of_a_session_requires_rights_on_its_containers() {
    let (at, key) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let body = session_body(&create_card_in("/merchant-a/"));
    let ask = || {
        SHARED_SERVER.request("POST", SESSIONS).key(&key).idempotency_key("in-a").json(&body).send()
    };
    let first = ask().expect_status(201);
    assert_eq!(ask().expect_status(201), first);
    let elsewhere = json!({"name": "s", "rules": [rule("/merchant-b/", &THREEDS_PERMISSIONS)]});
    SHARED_SERVER.put(&ACME.management, &at, &elsewhere).expect_status(200);
    ask().expect_problem(403, "3ds:session:create");
}

#[test]
fn access_session_with_threeds_rights_is_bound_to_its_rule() {
    let (_, lender) = create_application(&THREEDS_PERMISSIONS, &json!([]));
    let session =
        SHARED_SERVER.request("POST", "/sessions").key(&ACME.public).send().expect_status(201);
    let body =
        json!({"nonce": session["nonce"], "rules": [rule("/merchant-a/", &THREEDS_PERMISSIONS)]});
    SHARED_SERVER.post(&lender, "/sessions/authorize", &body).expect_status(204);
    let key = text_field(&session, "session_key");
    check_session(&key, &create_card_in("/merchant-a/"), true);
    check_session(&key, &create_card_in("/merchant-b/"), false);
    // An application with rules cannot lend more than they cover.
    let (_, ruled) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let session =
        SHARED_SERVER.request("POST", "/sessions").key(&ACME.public).send().expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["3ds:session:create"]});
    SHARED_SERVER
        .post(&ruled, "/sessions/authorize", &body)
        .expect_problem(403, "3ds:session:create");
}
