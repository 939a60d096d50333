//! 3-D Secure permissions are checked in the containers of the card.

use scrip_testing::requests::{payment, with_members};
use serde_json::{Value, json};

use crate::{
    harness::{
        entities::CreatedApplication,
        server::{ACME, SERVER, card_body, text_field, unique_card_number},
    },
    threeds_sessions::requests::{SESSIONS, browser_info},
};

const THREEDS_PERMISSIONS: [&str; 3] =
    ["3ds:session:create", "3ds:session:read", "3ds:session:authenticate"];

/// Creates a private application over HTTP. Returns its path and its key.
fn create_application(permissions: &[&str], rules: &Value) -> CreatedApplication {
    let rights = json!({"permissions": permissions, "rules": rules});
    SERVER.create_application(&ACME.management, "private", &rights)
}

/// The key of an application with all rights on 3-D Secure sessions in a container.
fn create_key_for(container: &str) -> String {
    create_application(&[], &json!([rule(container, &THREEDS_PERMISSIONS)])).key
}

fn rule(container: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": "mask", "permissions": permissions})
}

/// Creates a card in this container.
fn create_card_in(container: &str) -> String {
    let containers = json!({"containers": [container]});
    let body = with_members(card_body(&unique_card_number()), &containers);
    SERVER.create_token_id(&ACME.private, &body)
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
        let authenticate_path = format!("{path}/authenticate");
        SERVER.post(key, &authenticate_path, &payment("Frictionless")).expect_status(200);
        SERVER.get_path(key, &path).expect_status(200);
    } else {
        response.expect_problem(403, "3ds:session:create");
    }
}

#[test]
fn threeds_rule_covers_its_container_only() {
    let key = create_key_for("/merchant-a/");
    check_session(&key, &create_card_in("/merchant-a/"), true);
    check_session(&key, &create_card_in("/merchant-a/vip/"), true);
    check_session(&key, &create_card_in("/merchant-b/"), false);
    check_session(&key, &create_card_in("/merchant-ab/"), false);
}

#[test]
fn plain_threeds_permission_covers_the_containers_of_the_rules_only() {
    let rules =
        json!([rule("/merchant-a/", &["token:read"]), rule("/merchant-c/", &["token:read"])]);
    let key_with_rules = create_application(&THREEDS_PERMISSIONS, &rules).key;
    check_session(&key_with_rules, &create_card_in("/merchant-a/"), true);
    check_session(&key_with_rules, &create_card_in("/merchant-c/"), true);
    check_session(&key_with_rules, &create_card_in("/merchant-b/"), false);
    let key_without_rules = create_application(&THREEDS_PERMISSIONS, &json!([])).key;
    check_session(&key_without_rules, &create_card_in("/merchant-b/"), true);
}

#[test]
fn denial_is_the_same_for_a_card_and_for_another_token() {
    let key = create_key_for("/merchant-a/");
    let other = json!({"type": "token", "data": 1, "containers": ["/merchant-b/"]});
    let other = SERVER.create_token_id(&ACME.private, &other);
    check_session(&key, &other, false);
    check_session(&key, &create_card_in("/merchant-b/"), false);
}

#[test]
fn session_in_a_foreign_container_cannot_be_read_or_changed() {
    let [own_key, foreign_key] = ["/merchant-b/", "/merchant-a/"].map(create_key_for);
    let token = create_card_in("/merchant-b/");
    let body = json!({"token_id": token, "device": "app"});
    let path = format!("{SESSIONS}/{}", SERVER.create_session_id(&own_key, &body));
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
    let [a, b] = ["/merchant-a/", "/merchant-b/"].map(create_key_for);
    let token = create_card_in("/merchant-a/");
    let path = format!("{SESSIONS}/{}", SERVER.create_session_id(&a, &session_body(&token)));
    SERVER.get_path(&b, &path).expect_problem(403, "3ds:session:read");
    let container_patch = json!({"containers": ["/merchant-b/"]});
    SERVER.patch_token(&ACME.private, &token, &container_patch).expect_status(200);
    SERVER.get_path(&a, &path).expect_problem(403, "3ds:session:read");
    SERVER.get_path(&b, &path).expect_status(200);
}

#[test]
fn replay_of_a_session_requires_rights_on_its_containers() {
    let application = create_application(&[], &json!([rule("/merchant-a/", &THREEDS_PERMISSIONS)]));
    let body = session_body(&create_card_in("/merchant-a/"));
    let request = || SERVER.post_once(&application.key, SESSIONS, "in-a", &body);
    let first = request().expect_status(201);
    assert_eq!(request().expect_status(201), first);
    let changed_application =
        json!({"name": "s", "rules": [rule("/merchant-b/", &THREEDS_PERMISSIONS)]});
    SERVER.put(&ACME.management, &application.path, &changed_application).expect_status(200);
    request().expect_problem(403, "3ds:session:create");
}

#[test]
fn access_session_with_threeds_rights_is_bound_to_its_rule() {
    let authorizer_key = create_application(&THREEDS_PERMISSIONS, &json!([])).key;
    let rules = json!({"rules": [rule("/merchant-a/", &THREEDS_PERMISSIONS)]});
    let key = SERVER.create_access_session(&ACME.public, &authorizer_key, &rules);
    check_session(&key, &create_card_in("/merchant-a/"), true);
    check_session(&key, &create_card_in("/merchant-b/"), false);
    // An application with rules cannot delegate more than its rules allow.
    let key_with_rules = create_key_for("/merchant-a/");
    let session = SERVER.post_empty(&ACME.public, "/sessions").expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["3ds:session:create"]});
    let response = SERVER.post(&key_with_rules, "/sessions/authorize", &body);
    response.expect_problem(403, "3ds:session:create");
}
