//! Access sessions: begun by a public key, authorized once by a private one, and over in minutes.

use std::time::Duration;

use scrip_core::{
    policy::{
        ApplicationKind::Private,
        Permission::{TokenCreate, TokenRead},
        TenantSettings,
    },
    time::{Clock, Timestamp},
};
use serde_json::{Value, json};

use crate::harness::server::{
    ACME, SHARED_SERVER, TenantApiKeys, TestResponse, TestServer, text_field,
};

fn create_session(server: &TestServer, keys: &TenantApiKeys) -> Value {
    server.request("POST", "/sessions").key(&keys.public).send().expect_status(201)
}

/// Authorized by this key, with this beside the nonce.
fn authorize(server: &TestServer, key: &str, session: &Value, mut body: Value) -> TestResponse {
    body["nonce"] = session["nonce"].clone();
    server.post(key, "/sessions/authorize", &body)
}

fn key(session: &Value) -> String {
    text_field(session, "session_key")
}

fn read_permission() -> Value {
    json!({"permissions": ["token:read"]})
}

fn create_token() -> String {
    text_field(
        &SHARED_SERVER.create_token_ok(&ACME.private, &json!({"type": "token", "data": 1})),
        "id",
    )
}

#[test]
fn unauthorized_session_has_no_rights() {
    let session = create_session(&SHARED_SERVER, &ACME);
    assert!(key(&session).starts_with("key_test_us_ses_"));
    assert!(text_field(&session, "nonce").len() > 30);
    assert!(!key(&session).contains(&text_field(&session, "nonce")));
    let id = create_token();
    SHARED_SERVER.get_token(&key(&session), &id).expect_problem(403, "token:read");
    // Not even what the application has that began it.
    SHARED_SERVER
        .create_token(&key(&session), &json!({"type": "token", "data": 1}))
        .expect_problem(403, "create");
    let reply = authorize(&SHARED_SERVER, &ACME.private, &session, read_permission());
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    SHARED_SERVER.get_token(&key(&session), &id).expect_status(200);
    SHARED_SERVER
        .create_token(&key(&session), &json!({"type": "token", "data": 1}))
        .expect_problem(403, "create");
    SHARED_SERVER
        .delete(&key(&session), &format!("/tokens/{id}"))
        .expect_problem(403, "token:delete");
}

#[test]
fn nonce_authorizes_only_once() {
    let session = create_session(&SHARED_SERVER, &ACME);
    // What fails does not use it up.
    authorize(&SHARED_SERVER, &ACME.private, &session, json!({})).expect_invalid("permissions");
    let less = SHARED_SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenCreate]);
    authorize(&SHARED_SERVER, &less, &session, read_permission()).expect_problem(403, "token:read");
    authorize(&SHARED_SERVER, &ACME.private, &session, read_permission()).expect_status(204);
    let more = json!({"permissions": ["token:delete"]});
    authorize(&SHARED_SERVER, &ACME.private, &session, more).expect_problem(409, "used before");
    let id = create_token();
    SHARED_SERVER
        .delete(&key(&session), &format!("/tokens/{id}"))
        .expect_problem(403, "token:delete");
    SHARED_SERVER.get_token(&key(&session), &id).expect_status(200);
}

#[test]
fn only_one_of_many_concurrent_authorizations_succeeds() {
    let session = create_session(&SHARED_SERVER, &ACME);
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let ask = || authorize(&SHARED_SERVER, &ACME.private, &session, read_permission()).status;
        let request: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        request.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|it| **it == 204).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|it| **it == 409).count(), 7, "{statuses:?}");
}

#[test]
fn unknown_and_foreign_nonces_are_indistinguishable() {
    let elsewhere = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let foreign = create_session(&SHARED_SERVER, &elsewhere);
    let unknown = json!({"nonce": "nobodys"});
    let by_key = json!({"nonce": create_session(&SHARED_SERVER, &ACME)["session_key"]});
    let replies = [&foreign, &unknown, &by_key, &json!({"nonce": ""})]
        .map(|it| authorize(&SHARED_SERVER, &ACME.private, it, read_permission()));
    for reply in &replies {
        reply.expect_problem(404, "no such thing");
        assert_eq!(reply.without_trace(), replies[0].without_trace());
    }
    authorize(&SHARED_SERVER, &elsewhere.private, &foreign, read_permission()).expect_status(204);
    let id = create_token();
    SHARED_SERVER.get_token(&key(&foreign), &id).expect_problem(404, "no such thing");
}

#[test]
fn only_public_keys_create_and_only_private_keys_authorize_sessions() {
    let begin_by = |key: &str| SHARED_SERVER.request("POST", "/sessions").key(key).send();
    begin_by(&ACME.private).expect_problem(403, "public application");
    begin_by(&ACME.management).expect_problem(403, "public application");
    let session = create_session(&SHARED_SERVER, &ACME);
    let delegated = create_session(&SHARED_SERVER, &ACME);
    authorize(
        &SHARED_SERVER,
        &ACME.private,
        &delegated,
        json!({"permissions": ["token:create", "token:read"]}),
    )
    .expect_status(204);
    for key in [&ACME.public, &ACME.management, &key(&session), &key(&delegated)] {
        authorize(&SHARED_SERVER, key, &session, read_permission())
            .expect_problem(403, "private application");
    }
    for session in [&session, &delegated] {
        begin_by(&key(session)).expect_problem(403, "public application");
    }
    SHARED_SERVER.get_token(&key(&session), &create_token()).expect_problem(403, "token:read");
}

#[test]
fn invalid_session_authorization_names_the_attribute() {
    let condition = |attribute: &str, operator: &str, value: Value| {
        let condition = json!({"attribute": attribute, "operator": operator, "value": value});
        json!({"rules": [{"conditions": [condition], "transform": "mask", "permissions": ["token:read"]}]})
    };
    let rule = |name: &str, value: Value| {
        let mut rule =
            json!({"container": "/", "transform": "mask", "permissions": ["token:read"]});
        rule[name] = value;
        json!({"rules": [rule]})
    };
    let many = vec![json!({"attribute": "id", "operator": "equals", "value": "x"}); 17];
    let one = json!([{"attribute": "id", "operator": "equals", "value": "x"}]);
    let table = [
        (json!({}), "permissions"),
        (json!({"permissions": []}), "permissions"),
        (json!({"permissions": ["token:eat"]}), "permissions[0]"),
        (json!({"permissions": ["tenant:read"]}), "permissions"),
        (json!({"permissions": ["token:read"], "expires_at": "soon"}), "expires_at"),
        (json!({"permissions": ["token:read"], "expires_at": 7}), "expires_at"),
        (rule("container", Value::Null), "rules[0].container"),
        (rule("container", json!("a")), "rules[0].container"),
        (rule("transform", json!("show")), "rules[0].transform"),
        (rule("conditions", one), "rules[0].conditions"),
        (rule("permissions", json!([])), "rules[0].permissions"),
        (condition("type", "equals", json!("card")), "rules[0].conditions[0].attribute"),
        (condition("id", "contains", json!("x")), "rules[0].conditions[0].operator"),
        (condition("id", "starts_with", json!("")), "rules[0].conditions[0].value"),
        (condition("id", "equals", json!(7)), "rules[0].conditions[0].value"),
        (condition("container", "starts_with", json!("/a")), "rules[0].conditions[0].value"),
    ];
    let session = create_session(&SHARED_SERVER, &ACME);
    for (body, attribute) in table {
        authorize(&SHARED_SERVER, &ACME.private, &session, body).expect_invalid(attribute);
    }
    for conditions in [json!({}), json!("x"), json!(many)] {
        let body = json!({"rules": [{"conditions": conditions, "transform": "mask", "permissions": ["token:read"]}]});
        authorize(&SHARED_SERVER, &ACME.private, &session, body)
            .expect_invalid("rules[0].conditions");
    }
    for conditions in [Value::Null, json!([])] {
        let body = json!({"rules": [{"conditions": conditions, "transform": "mask", "permissions": ["token:read"]}]});
        authorize(&SHARED_SERVER, &ACME.private, &session, body)
            .expect_invalid("rules[0].container");
    }
    let without = SHARED_SERVER.post(&ACME.private, "/sessions/authorize", &read_permission());
    without.expect_invalid("nonce");
    authorize(&SHARED_SERVER, &ACME.private, &session, read_permission()).expect_status(204);
}

/// A server whose clock can be moved, a session on it, and a token to read.
fn server_with_movable_clock() -> (TestServer, TenantApiKeys) {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    server.create_token_ok(&keys.private, &json!({"id": "read-me", "type": "token", "data": 1}));
    (server, keys)
}

fn expiry_after(server: &TestServer, seconds: i64) -> String {
    Timestamp { unix_ms: server.clock.now().unix_ms + seconds * 1000 }.to_string()
}

#[test]
fn session_expires_after_three_minutes_by_default() {
    let (server, keys) = server_with_movable_clock();
    let (authorized, late) = (create_session(&server, &keys), create_session(&server, &keys));
    let left = seconds_left(&server, &authorized);
    assert!((170..=180).contains(&left), "{left}");
    authorize(&server, &keys.private, &authorized, read_permission()).expect_status(204);
    server.clock.advance(Duration::from_secs(165));
    server.get_token(&key(&authorized), "read-me").expect_status(200);
    server.get_token(&key(&late), "read-me").expect_problem(403, "token:read");
    server.clock.advance(Duration::from_secs(16));
    server.get_token(&key(&authorized), "read-me").expect_problem(401, "BT-API-KEY");
    server.get_token(&key(&late), "read-me").expect_problem(401, "BT-API-KEY");
    let unknown =
        authorize(&server, &keys.private, &json!({"nonce": "nobodys"}), read_permission());
    for session in [&late, &authorized] {
        let reply = authorize(&server, &keys.private, session, read_permission());
        reply.expect_problem(404, "no such thing");
        assert_eq!(reply.without_trace(), unknown.without_trace());
    }
}

fn seconds_left(server: &TestServer, session: &Value) -> i64 {
    let end = Timestamp::parse_expiry(&text_field(session, "expires_at")).unwrap();
    (end.unix_ms - server.clock.now().unix_ms) / 1000
}

#[test]
fn session_lifetime_can_be_set_up_to_one_day() {
    let (server, keys) = server_with_movable_clock();
    let until = |seconds: i64| json!({"permissions": ["token:read"], "expires_at": expiry_after(&server, seconds)});
    let session = create_session(&server, &keys);
    for wrong in [-1, -86_400, 24 * 3600 + 60] {
        let reply = authorize(&server, &keys.private, &session, until(wrong));
        reply.expect_invalid("expires_at");
    }
    authorize(&server, &keys.private, &session, until(24 * 3600 - 60)).expect_status(204);
    let short = create_session(&server, &keys);
    authorize(&server, &keys.private, &short, until(60)).expect_status(204);
    let plain = create_session(&server, &keys);
    let unsaid = json!({"permissions": ["token:read"], "expires_at": null});
    authorize(&server, &keys.private, &plain, unsaid).expect_status(204);
    server.clock.advance(Duration::from_secs(62));
    server.get_token(&key(&short), "read-me").expect_problem(401, "BT-API-KEY");
    server.get_token(&key(&plain), "read-me").expect_status(200);
    server.clock.advance(Duration::from_secs(23 * 3600));
    server.get_token(&key(&plain), "read-me").expect_problem(401, "BT-API-KEY");
    server.get_token(&key(&session), "read-me").expect_status(200);
    server.clock.advance(Duration::from_secs(3600));
    server.get_token(&key(&session), "read-me").expect_problem(401, "BT-API-KEY");
}

/// An application made over HTTP, so that it can be changed: its path and its key.
fn create_application(body: &Value) -> (String, String) {
    let created = SHARED_SERVER.post(&ACME.management, "/applications", body).expect_status(201);
    (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"))
}

#[test]
fn session_ends_when_its_application_or_authorizer_is_deleted() {
    let public = json!({"name": "p", "type": "public", "permissions": ["token:create"]});
    let private = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let id = create_token();
    for ends in ["public", "private"] {
        let ((public_at, public), (private_at, private)) =
            (create_application(&public), create_application(&private));
        let session =
            SHARED_SERVER.request("POST", "/sessions").key(&public).send().expect_status(201);
        authorize(&SHARED_SERVER, &private, &session, read_permission()).expect_status(204);
        SHARED_SERVER.get_token(&key(&session), &id).expect_status(200);
        let at = if ends == "public" { public_at } else { private_at };
        SHARED_SERVER.delete(&ACME.management, &at).expect_status(204);
        SHARED_SERVER.get_token(&key(&session), &id).expect_problem(401, "BT-API-KEY");
    }
}

#[test]
fn access_session_ends_when_its_authorizing_key_is_deleted() {
    let private = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let (at, first) = create_application(&private);
    let keys = format!("{at}/keys");
    let second = SHARED_SERVER.post(&ACME.management, &keys, &json!({})).expect_status(201);
    let id = create_token();
    let authorized_by = |private: &str| {
        let session = create_session(&SHARED_SERVER, &ACME);
        authorize(&SHARED_SERVER, private, &session, read_permission()).expect_status(204);
        SHARED_SERVER.get_token(&key(&session), &id).expect_status(200);
        session
    };
    let (by_first, by_second) = (authorized_by(&first), authorized_by(&text_field(&second, "key")));
    SHARED_SERVER
        .delete(&ACME.management, &format!("{keys}/{}", text_field(&second, "id")))
        .expect_status(204);
    SHARED_SERVER.get_token(&key(&by_second), &id).expect_problem(401, "BT-API-KEY");
    // The application and its other key are still there, and so is what that key authorized.
    SHARED_SERVER.get_token(&key(&by_first), &id).expect_status(200);
}

#[test]
fn sessions_do_not_share_idempotency_keys() {
    let delegated = json!({"permissions": ["token:create"]});
    let sessions: Vec<_> = (0..2).map(|_| create_session(&SHARED_SERVER, &ACME)).collect();
    let create = |key: &str| {
        let ask = SHARED_SERVER.request("POST", "/tokens").key(key).idempotency_key("of-a-session");
        ask.json(&json!({"type": "token", "data": 1})).send().expect_status(201)["id"].clone()
    };
    let mut ids = vec![create(&ACME.public)];
    for session in &sessions {
        authorize(&SHARED_SERVER, &ACME.private, session, delegated.clone()).expect_status(204);
        let first = create(&key(session));
        assert_eq!(create(&key(session)), first);
        ids.push(first);
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    let reads = SHARED_SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenRead]);
    assert_eq!(SHARED_SERVER.get_token(&reads, ids[1].as_str().unwrap()).status, 200);
}
