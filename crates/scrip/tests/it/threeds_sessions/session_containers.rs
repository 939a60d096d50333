//! 3-D Secure permissions are checked in the containers of the card.

use scrip_testing::requests::payment;
use serde_json::{Value, json};

use crate::{
    harness::server::{ACME, SERVER, card_body, text_field, unique_card_number},
    threeds_sessions::requests::{SESSIONS, browser_info},
};

const THREEDS_PERMISSIONS: [&str; 3] =
    ["3ds:session:create", "3ds:session:read", "3ds:session:authenticate"];

/// Creates a private application over HTTP. Returns its path and its key.
fn create_application(permissions: &[&str], rules: &Value) -> (String, String) {
    let body = json!({"name": "s", "type": "private", "permissions": permissions, "rules": rules});
    let created = SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"))
}

fn rule(container: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": "mask", "permissions": permissions})
}

/// Creates a card in this container.
fn create_card_in(container: &str) -> String {
    let mut body = card_body(&unique_card_number());
    body["containers"] = json!([container]);
    text_field(&SERVER.create_token_ok(&ACME.private, &body), "id")
}

fn session_body(token: &str) -> Value {
    json!({"token_id": token, "device_info": browser_info()})
}

/// Creates, authenticates and reads a session of the card, and compares the statuses.
#[track_caller]
fn check_session(key: &str, token: &str, is_allowed: bool) {
    let response = SERVER.post(key, SESSIONS, &session_body(token));
    if is_allowed {
        let path = format!("{SESSIONS}/{}", text_field(&response.expect_status(201), "id"));
        SERVER
            .post(key, &format!("{path}/authenticate"), &payment("Frictionless"))
            .expect_status(200);
        SERVER.get_path(key, &path).expect_status(200);
    } else {
        response.expect_problem(403, "3ds:session:create");
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
    let (_, key_with_rules) = create_application(&THREEDS_PERMISSIONS, &rules);
    check_session(&key_with_rules, &create_card_in("/merchant-a/"), true);
    check_session(&key_with_rules, &create_card_in("/merchant-c/"), true);
    check_session(&key_with_rules, &create_card_in("/merchant-b/"), false);
    let (_, key_without_rules) = create_application(&THREEDS_PERMISSIONS, &json!([]));
    check_session(&key_without_rules, &create_card_in("/merchant-b/"), true);
}

#[test]
fn denial_is_the_same_for_a_card_and_for_another_token() {
    let (_, key) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let other = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    let other = text_field(&SERVER.create_token_ok(&ACME.private, &other), "id");
    check_session(&key, &other, false);
    check_session(&key, &create_card_in("/merchant-b/"), false);
}

#[test]
fn session_in_a_foreign_container_cannot_be_read_or_changed() {
    let (_, own_key) =
        create_application(&[], &json!([rule("/merchant-b/", &THREEDS_PERMISSIONS)]));
    let (_, foreign_key) =
        create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let token = create_card_in("/merchant-b/");
    let body = json!({"token_id": token, "device": "app"});
    let path = format!("{SESSIONS}/{}", text_field(&SERVER.create_session(&own_key, &body), "id"));
    let expect_denied = |path: &str| {
        SERVER.get_path(&foreign_key, path).expect_problem(403, "3ds:session:read");
        let result = SERVER.get_path(&foreign_key, &format!("{path}/challenge-result"));
        result.expect_problem(403, "3ds:session:authenticate");
        let authenticated =
            SERVER.post(&foreign_key, &format!("{path}/authenticate"), &payment("Challenged"));
        authenticated.expect_problem(403, "3ds:session:authenticate");
        let device = json!({"device_info": crate::threeds_sessions::requests::app_info()});
        SERVER.put(&foreign_key, path, &device).expect_problem(403, "3ds:session:create");
    };
    expect_denied(&path);
    SERVER.get_path(&own_key, &path).expect_status(200);
    // The same applies after the card was deleted, because the session stores its containers.
    SERVER.delete(&ACME.private, &format!("/tokens/{token}")).expect_status(204);
    expect_denied(&path);
    SERVER.get_path(&own_key, &path).expect_status(200);
}

#[test]
fn sessions_follow_their_card_to_another_container() {
    let (_, a) = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let (_, b) = create_application(&[], &json!([rule("/merchant-b/", &THREEDS_PERMISSIONS)]));
    let token = create_card_in("/merchant-a/");
    let path = format!(
        "{SESSIONS}/{}",
        text_field(&SERVER.create_session(&a, &session_body(&token)), "id")
    );
    SERVER.get_path(&b, &path).expect_problem(403, "3ds:session:read");
    let container_patch = json!({"containers": ["/merchant-b/"]});
    SERVER.patch_token(&ACME.private, &token, &container_patch).expect_status(200);
    SERVER.get_path(&a, &path).expect_problem(403, "3ds:session:read");
    SERVER.get_path(&b, &path).expect_status(200);
}

#[test]
fn replay_of_a_session_requires_rights_on_its_containers() {
    let (application_path, key) =
        create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let body = session_body(&create_card_in("/merchant-a/"));
    let request = || SERVER.post_once(&key, SESSIONS, "in-a", &body);
    let first = request().expect_status(201);
    assert_eq!(request().expect_status(201), first);
    let changed_application =
        json!({"name": "s", "rules": [rule("/merchant-b/", &THREEDS_PERMISSIONS)]});
    SERVER.put(&ACME.management, &application_path, &changed_application).expect_status(200);
    request().expect_problem(403, "3ds:session:create");
}

#[test]
fn access_session_with_threeds_rights_is_bound_to_its_rule() {
    let (_, authorizer_key) = create_application(&THREEDS_PERMISSIONS, &json!([]));
    let session = SERVER.post_empty(&ACME.public, "/sessions").expect_status(201);
    let body =
        json!({"nonce": session["nonce"], "rules": [rule("/merchant-a/", &THREEDS_PERMISSIONS)]});
    SERVER.post(&authorizer_key, "/sessions/authorize", &body).expect_status(204);
    let key = text_field(&session, "session_key");
    check_session(&key, &create_card_in("/merchant-a/"), true);
    check_session(&key, &create_card_in("/merchant-b/"), false);
    // An application with rules cannot delegate more than its rules allow.
    let (_, key_with_rules) =
        create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let session = SERVER.post_empty(&ACME.public, "/sessions").expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["3ds:session:create"]});
    SERVER
        .post(&key_with_rules, "/sessions/authorize", &body)
        .expect_problem(403, "3ds:session:create");
}
