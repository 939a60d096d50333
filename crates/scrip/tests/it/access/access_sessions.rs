//! Access sessions: begun by a public key, authorized once by a private one, and over in minutes.

use std::time::Duration;

use scrip_core::{
    policy::{
        ApplicationKind::Private,
        Permission::{TokenCreate, TokenRead},
        Settings,
    },
    time::{Clock, Timestamp},
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, Reply, SHARED, Server, text};

fn begin(server: &Server, keys: &Keys) -> Value {
    server.ask("POST", "/sessions").key(&keys.public).send().is(201)
}

/// Authorized by this key, with this beside the nonce.
fn authorize(server: &Server, key: &str, session: &Value, mut body: Value) -> Reply {
    body["nonce"] = session["nonce"].clone();
    server.post(key, "/sessions/authorize", &body)
}

fn key(session: &Value) -> String {
    text(session, "session_key")
}

fn can_read() -> Value {
    json!({"permissions": ["token:read"]})
}

fn token() -> String {
    text(&SHARED.created(&ACME.private, &json!({"type": "token", "data": 1})), "id")
}

#[test]
fn no_rights_before_it_is_authorized() {
    let session = begin(&SHARED, &ACME);
    assert!(key(&session).starts_with("key_test_us_ses_"));
    assert!(text(&session, "nonce").len() > 30);
    assert!(!key(&session).contains(&text(&session, "nonce")));
    let id = token();
    SHARED.get(&key(&session), &id).refused(403, "token:read");
    // Not even what the application has that began it.
    SHARED.create(&key(&session), &json!({"type": "token", "data": 1})).refused(403, "create");
    let reply = authorize(&SHARED, &ACME.private, &session, can_read());
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    SHARED.get(&key(&session), &id).is(200);
    SHARED.create(&key(&session), &json!({"type": "token", "data": 1})).refused(403, "create");
    SHARED.remove(&key(&session), &format!("/tokens/{id}")).refused(403, "token:delete");
}

#[test]
fn a_nonce_is_used_once() {
    let session = begin(&SHARED, &ACME);
    // What fails does not use it up.
    authorize(&SHARED, &ACME.private, &session, json!({})).invalid("permissions");
    let less = SHARED.permissions(&ACME.tenant, Private, &[TokenCreate]);
    authorize(&SHARED, &less, &session, can_read()).refused(403, "token:read");
    authorize(&SHARED, &ACME.private, &session, can_read()).is(204);
    let more = json!({"permissions": ["token:delete"]});
    authorize(&SHARED, &ACME.private, &session, more).refused(409, "used before");
    let id = token();
    SHARED.remove(&key(&session), &format!("/tokens/{id}")).refused(403, "token:delete");
    SHARED.get(&key(&session), &id).is(200);
}

#[test]
fn of_many_at_once_one_authorizes() {
    let session = begin(&SHARED, &ACME);
    let statuses: Vec<_> = std::thread::scope(|scope| {
        let ask = || authorize(&SHARED, &ACME.private, &session, can_read()).status;
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|it| **it == 204).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|it| **it == 409).count(), 7, "{statuses:?}");
}

#[test]
fn nobodys_nonces_are_all_the_same() {
    let elsewhere = SHARED.tenant(Settings::default());
    let foreign = begin(&SHARED, &elsewhere);
    let unknown = json!({"nonce": "nobodys"});
    let by_key = json!({"nonce": begin(&SHARED, &ACME)["session_key"]});
    let replies = [&foreign, &unknown, &by_key, &json!({"nonce": ""})]
        .map(|it| authorize(&SHARED, &ACME.private, it, can_read()));
    for reply in &replies {
        reply.refused(404, "no such thing");
        assert_eq!(reply.without_trace(), replies[0].without_trace());
    }
    authorize(&SHARED, &elsewhere.private, &foreign, can_read()).is(204);
    let id = token();
    SHARED.get(&key(&foreign), &id).refused(404, "no such thing");
}

#[test]
fn who_may_begin_and_who_may_authorize() {
    let begin_by = |key: &str| SHARED.ask("POST", "/sessions").key(key).send();
    begin_by(&ACME.private).refused(403, "public application");
    begin_by(&ACME.management).refused(403, "public application");
    let session = begin(&SHARED, &ACME);
    let lent = begin(&SHARED, &ACME);
    authorize(
        &SHARED,
        &ACME.private,
        &lent,
        json!({"permissions": ["token:create", "token:read"]}),
    )
    .is(204);
    for key in [&ACME.public, &ACME.management, &key(&session), &key(&lent)] {
        authorize(&SHARED, key, &session, can_read()).refused(403, "private application");
    }
    for session in [&session, &lent] {
        begin_by(&key(session)).refused(403, "public application");
    }
    SHARED.get(&key(&session), &token()).refused(403, "token:read");
}

#[test]
fn what_is_wrong_is_named() {
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
    let session = begin(&SHARED, &ACME);
    for (body, attribute) in table {
        authorize(&SHARED, &ACME.private, &session, body).invalid(attribute);
    }
    for conditions in [json!({}), json!("x"), json!(many)] {
        let body = json!({"rules": [{"conditions": conditions, "transform": "mask", "permissions": ["token:read"]}]});
        authorize(&SHARED, &ACME.private, &session, body).invalid("rules[0].conditions");
    }
    for conditions in [Value::Null, json!([])] {
        let body = json!({"rules": [{"conditions": conditions, "transform": "mask", "permissions": ["token:read"]}]});
        authorize(&SHARED, &ACME.private, &session, body).invalid("rules[0].container");
    }
    let without = SHARED.post(&ACME.private, "/sessions/authorize", &can_read());
    without.invalid("nonce");
    authorize(&SHARED, &ACME.private, &session, can_read()).is(204);
}

/// A server whose clock can be moved, a session on it, and a token to read.
fn timed() -> (Server, Keys) {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    server.created(&keys.private, &json!({"id": "read-me", "type": "token", "data": 1}));
    (server, keys)
}

fn after(server: &Server, seconds: i64) -> String {
    Timestamp { unix_ms: server.clock.now().unix_ms + seconds * 1000 }.to_string()
}

#[test]
fn three_minutes_unless_told_otherwise() {
    let (server, keys) = timed();
    let (authorized, late) = (begin(&server, &keys), begin(&server, &keys));
    let left = seconds_left(&server, &authorized);
    assert!((170..=180).contains(&left), "{left}");
    authorize(&server, &keys.private, &authorized, can_read()).is(204);
    server.clock.advance(Duration::from_secs(165));
    server.get(&key(&authorized), "read-me").is(200);
    server.get(&key(&late), "read-me").refused(403, "token:read");
    server.clock.advance(Duration::from_secs(16));
    server.get(&key(&authorized), "read-me").refused(401, "BT-API-KEY");
    server.get(&key(&late), "read-me").refused(401, "BT-API-KEY");
    let unknown = authorize(&server, &keys.private, &json!({"nonce": "nobodys"}), can_read());
    for session in [&late, &authorized] {
        let reply = authorize(&server, &keys.private, session, can_read());
        reply.refused(404, "no such thing");
        assert_eq!(reply.without_trace(), unknown.without_trace());
    }
}

fn seconds_left(server: &Server, session: &Value) -> i64 {
    let end = Timestamp::parse_expiry(&text(session, "expires_at")).unwrap();
    (end.unix_ms - server.clock.now().unix_ms) / 1000
}

#[test]
fn longer_or_shorter_within_a_day() {
    let (server, keys) = timed();
    let until = |seconds: i64| json!({"permissions": ["token:read"], "expires_at": after(&server, seconds)});
    let session = begin(&server, &keys);
    for wrong in [-1, -86_400, 24 * 3600 + 60] {
        let reply = authorize(&server, &keys.private, &session, until(wrong));
        reply.invalid("expires_at");
    }
    authorize(&server, &keys.private, &session, until(24 * 3600 - 60)).is(204);
    let short = begin(&server, &keys);
    authorize(&server, &keys.private, &short, until(60)).is(204);
    let plain = begin(&server, &keys);
    let unsaid = json!({"permissions": ["token:read"], "expires_at": null});
    authorize(&server, &keys.private, &plain, unsaid).is(204);
    server.clock.advance(Duration::from_secs(62));
    server.get(&key(&short), "read-me").refused(401, "BT-API-KEY");
    server.get(&key(&plain), "read-me").is(200);
    server.clock.advance(Duration::from_secs(23 * 3600));
    server.get(&key(&plain), "read-me").refused(401, "BT-API-KEY");
    server.get(&key(&session), "read-me").is(200);
    server.clock.advance(Duration::from_secs(3600));
    server.get(&key(&session), "read-me").refused(401, "BT-API-KEY");
}

/// An application made over HTTP, so that it can be changed: its path and its key.
fn application(body: &Value) -> (String, String) {
    let made = SHARED.post(&ACME.management, "/applications", body).is(201);
    (format!("/applications/{}", text(&made, "id")), text(&made, "key"))
}

#[test]
fn it_ends_with_its_application_and_with_its_authorizer() {
    let public = json!({"name": "p", "type": "public", "permissions": ["token:create"]});
    let private = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let id = token();
    for ends in ["public", "private"] {
        let ((public_at, public), (private_at, private)) =
            (application(&public), application(&private));
        let session = SHARED.ask("POST", "/sessions").key(&public).send().is(201);
        authorize(&SHARED, &private, &session, can_read()).is(204);
        SHARED.get(&key(&session), &id).is(200);
        let at = if ends == "public" { public_at } else { private_at };
        SHARED.remove(&ACME.management, &at).is(204);
        SHARED.get(&key(&session), &id).refused(401, "BT-API-KEY");
    }
}

#[test]
fn access_session_ends_when_its_authorizing_key_is_deleted() {
    let private = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let (at, first) = application(&private);
    let keys = format!("{at}/keys");
    let second = SHARED.post(&ACME.management, &keys, &json!({})).is(201);
    let id = token();
    let authorized_by = |private: &str| {
        let session = begin(&SHARED, &ACME);
        authorize(&SHARED, private, &session, can_read()).is(204);
        SHARED.get(&key(&session), &id).is(200);
        session
    };
    let (by_first, by_second) = (authorized_by(&first), authorized_by(&text(&second, "key")));
    SHARED.remove(&ACME.management, &format!("{keys}/{}", text(&second, "id"))).is(204);
    SHARED.get(&key(&by_second), &id).refused(401, "BT-API-KEY");
    // The application and its other key are still there, and so is what that key authorized.
    SHARED.get(&key(&by_first), &id).is(200);
}

#[test]
fn sessions_do_not_share_idempotency_keys() {
    let lent = json!({"permissions": ["token:create"]});
    let sessions: Vec<_> = (0..2).map(|_| begin(&SHARED, &ACME)).collect();
    let create = |key: &str| {
        let ask = SHARED.ask("POST", "/tokens").key(key).once("of-a-session");
        ask.json(&json!({"type": "token", "data": 1})).send().is(201)["id"].clone()
    };
    let mut ids = vec![create(&ACME.public)];
    for session in &sessions {
        authorize(&SHARED, &ACME.private, session, lent.clone()).is(204);
        let first = create(&key(session));
        assert_eq!(create(&key(session)), first);
        ids.push(first);
    }
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    let reads = SHARED.permissions(&ACME.tenant, Private, &[TokenRead]);
    assert_eq!(SHARED.get(&reads, ids[1].as_str().unwrap()).status, 200);
}
