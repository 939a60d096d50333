//! Access sessions: created with a public key, authorized once with a private key, expired after
//! minutes.

use std::time::Duration;

use scrip_core::{
    Timestamp,
    types::{ApplicationKind::Private, Permission::TokenCreate, time::Clock},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TenantApiKeys, TestResponse, TestServer, text_field};

fn create_session(server: &TestServer, keys: &TenantApiKeys) -> Value {
    server.post_empty(&keys.public, "/sessions").expect_status(201)
}

/// Authorizes the session with this key. The nonce is added to the body.
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
    SERVER.create_token_id(&ACME.private, &json!({"type": "token", "data": 1}))
}

#[test]
fn unauthorized_access_session_has_no_rights() {
    let session = create_session(&SERVER, &ACME);
    assert!(key(&session).starts_with("key_test_us_ses_"));
    assert!(text_field(&session, "nonce").len() > 30);
    assert!(!key(&session).contains(&text_field(&session, "nonce")));
    let id = create_token();
    SERVER.get_token(&key(&session), &id).expect_problem(403, "token:read");
    // The session does not even have the rights of the application that created it.
    let body = json!({"type": "token", "data": 1});
    SERVER.create_token(&key(&session), &body).expect_problem(403, "create");
    let response = authorize(&SERVER, &ACME.private, &session, read_permission());
    assert_eq!((response.status, response.text.as_str()), (204, ""));
    SERVER.get_token(&key(&session), &id).expect_status(200);
    SERVER.create_token(&key(&session), &body).expect_problem(403, "create");
    SERVER.delete(&key(&session), &format!("/tokens/{id}")).expect_problem(403, "token:delete");
}

#[test]
fn nonce_authorizes_an_access_session_only_once() {
    let session = create_session(&SERVER, &ACME);
    // A failed authorization does not use up the nonce.
    authorize(&SERVER, &ACME.private, &session, json!({})).expect_invalid("permissions");
    let key_without_read = SERVER.key_with_permissions(&ACME.tenant, Private, &[TokenCreate]);
    authorize(&SERVER, &key_without_read, &session, read_permission())
        .expect_problem(403, "token:read");
    authorize(&SERVER, &ACME.private, &session, read_permission()).expect_status(204);
    let additional_permissions = json!({"permissions": ["token:delete"]});
    authorize(&SERVER, &ACME.private, &session, additional_permissions)
        .expect_problem(409, "used before");
    let id = create_token();
    SERVER.delete(&key(&session), &format!("/tokens/{id}")).expect_problem(403, "token:delete");
    SERVER.get_token(&key(&session), &id).expect_status(200);
}

#[test]
fn only_one_of_many_concurrent_access_session_authorizations_succeeds() {
    let session = create_session(&SERVER, &ACME);
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let request = || authorize(&SERVER, &ACME.private, &session, read_permission()).status;
        let requests: Vec<_> = (0..8).map(|_| scope.spawn(request)).collect();
        requests.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|it| **it == 204).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|it| **it == 409).count(), 7, "{statuses:?}");
}

#[test]
fn unknown_and_foreign_nonces_are_indistinguishable() {
    let other_tenant_keys = SERVER.create_default_tenant();
    let foreign_session = create_session(&SERVER, &other_tenant_keys);
    let unknown_nonce = json!({"nonce": "nobodys"});
    let by_key = json!({"nonce": create_session(&SERVER, &ACME)["session_key"]});
    let replies = [&foreign_session, &unknown_nonce, &by_key, &json!({"nonce": ""})]
        .map(|it| authorize(&SERVER, &ACME.private, it, read_permission()));
    for response in &replies {
        response.expect_problem(404, "Not found. No access session of this tenant has this nonce");
        assert_eq!(response.without_trace(), replies[0].without_trace());
    }
    authorize(&SERVER, &other_tenant_keys.private, &foreign_session, read_permission())
        .expect_status(204);
    let id = create_token();
    SERVER.get_token(&key(&foreign_session), &id).expect_problem(404, "Not found.");
}

#[test]
fn invalid_access_session_authorization_names_the_attribute() {
    let with_conditions = |conditions: Value| {
        let permissions = ["token:read"];
        let rule =
            json!({"conditions": conditions, "transform": "mask", "permissions": permissions});
        json!({"rules": [rule]})
    };
    let condition = |attribute: &str, operator: &str, value: Value| {
        with_conditions(json!([{"attribute": attribute, "operator": operator, "value": value}]))
    };
    let rule = |name: &str, value: Value| {
        let mut rule =
            json!({"container": "/", "transform": "mask", "permissions": ["token:read"]});
        rule[name] = value;
        json!({"rules": [rule]})
    };
    let id_is = json!({"attribute": "id", "operator": "equals", "value": "x"});
    let (one_condition, too_many_conditions) = (json!([id_is]), vec![&id_is; 17]);
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
        (rule("conditions", one_condition), "rules[0].conditions"),
        (rule("permissions", json!([])), "rules[0].permissions"),
        (condition("type", "equals", json!("card")), "rules[0].conditions[0].attribute"),
        (condition("id", "contains", json!("x")), "rules[0].conditions[0].operator"),
        (condition("id", "starts_with", json!("")), "rules[0].conditions[0].value"),
        (condition("id", "equals", json!(7)), "rules[0].conditions[0].value"),
        (condition("container", "starts_with", json!("/a")), "rules[0].conditions[0].value"),
    ];
    let session = create_session(&SERVER, &ACME);
    for (body, attribute) in table {
        authorize(&SERVER, &ACME.private, &session, body).expect_invalid(attribute);
    }
    for conditions in [json!({}), json!("x"), json!(too_many_conditions)] {
        let body = with_conditions(conditions);
        authorize(&SERVER, &ACME.private, &session, body).expect_invalid("rules[0].conditions");
    }
    for conditions in [Value::Null, json!([])] {
        let body = with_conditions(conditions);
        authorize(&SERVER, &ACME.private, &session, body).expect_invalid("rules[0].container");
    }
    let response_without_nonce =
        SERVER.post(&ACME.private, "/sessions/authorize", &read_permission());
    response_without_nonce.expect_invalid("nonce");
    authorize(&SERVER, &ACME.private, &session, read_permission()).expect_status(204);
}

/// Starts a server with a movable clock, an authorized session and a token.
fn server_with_movable_clock() -> (TestServer, TenantApiKeys) {
    let (server, keys) = TestServer::start_with_tenant();
    server.create_token_ok(&keys.private, &json!({"id": "read-me", "type": "token", "data": 1}));
    (server, keys)
}

fn expiry_after(server: &TestServer, seconds: i64) -> String {
    Timestamp { unix_ms: server.clock.now().unix_ms + seconds * 1000 }.to_string()
}

#[test]
fn access_session_expires_after_three_minutes_by_default() {
    let (server, keys) = server_with_movable_clock();
    let (authorized_session, late_session) =
        (create_session(&server, &keys), create_session(&server, &keys));
    let remaining_seconds = seconds_left(&server, &authorized_session);
    assert!((170..=180).contains(&remaining_seconds), "{remaining_seconds}");
    authorize(&server, &keys.private, &authorized_session, read_permission()).expect_status(204);
    server.clock.advance(Duration::from_secs(165));
    server.get_token(&key(&authorized_session), "read-me").expect_status(200);
    server.get_token(&key(&late_session), "read-me").expect_problem(403, "token:read");
    server.clock.advance(Duration::from_secs(16));
    server.get_token(&key(&authorized_session), "read-me").expect_problem(401, "BT-API-KEY");
    server.get_token(&key(&late_session), "read-me").expect_problem(401, "BT-API-KEY");
    let unknown_response =
        authorize(&server, &keys.private, &json!({"nonce": "nobodys"}), read_permission());
    for session in [&late_session, &authorized_session] {
        let response = authorize(&server, &keys.private, session, read_permission());
        response.expect_problem(404, "Not found.");
        assert_eq!(response.without_trace(), unknown_response.without_trace());
    }
}

fn seconds_left(server: &TestServer, session: &Value) -> i64 {
    let expires_at = Timestamp::parse_expiry(&text_field(session, "expires_at")).unwrap();
    (expires_at.unix_ms - server.clock.now().unix_ms) / 1000
}

#[test]
fn access_session_lifetime_can_be_set_up_to_one_day() {
    let (server, keys) = server_with_movable_clock();
    let body_with_lifetime = |seconds: i64| {
        let expires_at = expiry_after(&server, seconds);
        json!({"permissions": ["token:read"], "expires_at": expires_at})
    };
    let session = create_session(&server, &keys);
    for invalid_lifetime in [-1, -86_400, 24 * 3600 + 60] {
        let response =
            authorize(&server, &keys.private, &session, body_with_lifetime(invalid_lifetime));
        response.expect_invalid("expires_at");
    }
    authorize(&server, &keys.private, &session, body_with_lifetime(24 * 3600 - 60))
        .expect_status(204);
    let short_session = create_session(&server, &keys);
    authorize(&server, &keys.private, &short_session, body_with_lifetime(60)).expect_status(204);
    let default_session = create_session(&server, &keys);
    let body_with_null_expiry = json!({"permissions": ["token:read"], "expires_at": null});
    authorize(&server, &keys.private, &default_session, body_with_null_expiry).expect_status(204);
    server.clock.advance(Duration::from_secs(62));
    server.get_token(&key(&short_session), "read-me").expect_problem(401, "BT-API-KEY");
    server.get_token(&key(&default_session), "read-me").expect_status(200);
    server.clock.advance(Duration::from_secs(23 * 3600));
    server.get_token(&key(&default_session), "read-me").expect_problem(401, "BT-API-KEY");
    server.get_token(&key(&session), "read-me").expect_status(200);
    server.clock.advance(Duration::from_secs(3600));
    server.get_token(&key(&session), "read-me").expect_problem(401, "BT-API-KEY");
}

#[test]
fn access_session_ends_when_its_application_or_authorizer_is_deleted() {
    let id = create_token();
    for deleted_kind in ["public", "private"] {
        let [public, private] =
            [("public", "token:create"), ("private", "token:read")].map(|(kind, permission)| {
                let rights = json!({"permissions": [permission]});
                SERVER.create_application(&ACME.management, kind, &rights)
            });
        let session = SERVER.create_access_session(&public.key, &private.key, &read_permission());
        SERVER.get_token(&session, &id).expect_status(200);
        let deleted = if deleted_kind == "public" { public } else { private };
        SERVER.delete(&ACME.management, &deleted.path).expect_status(204);
        SERVER.get_token(&session, &id).expect_problem(401, "BT-API-KEY");
    }
}

#[test]
fn access_session_ends_when_its_authorizing_key_is_deleted() {
    let first = SERVER.create_application(&ACME.management, "private", &read_permission());
    let keys = format!("{}/keys", first.path);
    let second = SERVER.post(&ACME.management, &keys, &json!({})).expect_status(201);
    let id = create_token();
    let [by_first, by_second] = [&first.key, &text_field(&second, "key")].map(|private| {
        let session = SERVER.create_access_session(&ACME.public, private, &read_permission());
        SERVER.get_token(&session, &id).expect_status(200);
        session
    });
    let path = format!("{keys}/{}", text_field(&second, "id"));
    SERVER.delete(&ACME.management, &path).expect_status(204);
    SERVER.get_token(&by_second, &id).expect_problem(401, "BT-API-KEY");
    // The application, its other key and the session that this key authorized still work.
    SERVER.get_token(&by_first, &id).expect_status(200);
}
