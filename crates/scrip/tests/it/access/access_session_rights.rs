//! What an access session may do: what it was lent, and never more than its authorizer has now.

use serde_json::{Value, json};

use crate::harness::server::{ACME, Reply, SHARED, text};

/// An application made over HTTP, so that it can be changed: its path and its key.
fn authorizer(rules: &Value) -> (String, String) {
    let body = json!({"name": "a", "type": "private", "rules": rules});
    let made = SHARED.post(&ACME.management, "/applications", &body).is(201);
    (format!("/applications/{}", text(&made, "id")), text(&made, "key"))
}

/// A new session, and the answer to authorizing it with this.
fn lend(key: &str, mut body: Value) -> (String, Reply) {
    let session = SHARED.ask("POST", "/sessions").key(&ACME.public).send().is(201);
    body["nonce"] = session["nonce"].clone();
    (text(&session, "session_key"), SHARED.post(key, "/sessions/authorize", &body))
}

fn lent(key: &str, body: Value) -> String {
    let (session, reply) = lend(key, body);
    reply.is(204);
    session
}

fn rule(container: &str, transform: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": transform, "permissions": permissions})
}

fn ssn(container: &str) -> String {
    let body =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": [container]});
    text(&SHARED.created(&ACME.private, &body), "id")
}

const CLEAR: &str = "123-45-6789";
const MASKED: &str = "XXX-XX-6789";

#[test]
fn nobody_lends_more_than_they_have() {
    let own = json!([
        rule("/a/", "reveal", &["token:read"]),
        rule("/b/", "mask", &["token:read", "token:update"]),
    ]);
    let (_, key) = authorizer(&own);
    let table = [
        (json!({"rules": [rule("/a/", "reveal", &["token:read"])]}), None),
        (json!({"rules": [rule("/a/below/", "mask", &["token:read"])]}), None),
        (json!({"rules": [rule("/b/", "redact", &["token:update"])]}), None),
        (json!({"rules": [rule("/b/", "reveal", &["token:read"])]}), Some("token:read")),
        (json!({"rules": [rule("/a-b/", "redact", &["token:read"])]}), Some("token:read")),
        (json!({"rules": [rule("/", "redact", &["token:read"])]}), Some("token:read")),
        (json!({"rules": [rule("/a/", "redact", &["token:delete"])]}), Some("token:delete")),
        (json!({"permissions": ["token:read"]}), Some("token:read")),
        (json!({"permissions": ["token:create"]}), Some("token:create")),
        (json!({"permissions": ["token-intent:read"]}), Some("token-intent:read")),
        (
            json!({"rules": [
                rule("/a/", "reveal", &["token:read"]), rule("/b/", "mask", &["token:use"]),
            ]}),
            Some("token:use"),
        ),
    ];
    for (body, exceeds) in table {
        let (session, reply) = lend(&key, body.clone());
        match exceeds {
            None => drop(reply.is(204)),
            Some(permission) => {
                reply.refused(403, permission);
                SHARED.get(&session, &ssn("/a/")).refused(403, "token:read");
            }
        }
    }
    // Plain permissions mask, and so cannot be lent in clear.
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let made = SHARED.post(&ACME.management, "/applications", &body).is(201);
    let reveal = json!({"rules": [rule("/", "reveal", &["token:read"])]});
    lend(&text(&made, "key"), reveal).1.refused(403, "token:read");
}

#[test]
fn rules_of_a_session_reach_containers_and_below() {
    let rules = json!([
        rule("/a/", "mask", &["token:read"]),
        rule("/a/b/", "reveal", &["token:read"]),
        {"container": "/c/", "transform": "reveal", "permissions": ["token:read"], "priority": 0},
    ]);
    let session = lent(&ACME.private, json!({"rules": rules}));
    for (container, shown) in [("/a/", MASKED), ("/a/b/", MASKED), ("/c/d/", CLEAR)] {
        assert_eq!(SHARED.get(&session, &ssn(container)).is(200)["data"], shown, "{container}");
    }
    SHARED.get(&session, &ssn("/a-b/")).refused(403, "token:read");
    let both = json!({"type": "token", "data": 1, "containers": ["/c/", "/elsewhere/"]});
    let both = text(&SHARED.created(&ACME.private, &both), "id");
    SHARED.get(&session, &both).refused(403, "token:read");
}

fn conditions(all: &Value, permissions: &[&str]) -> Value {
    json!({"rules": [{"conditions": all, "transform": "reveal", "permissions": permissions}]})
}

#[test]
fn conditions_are_about_ids_and_containers() {
    let create = |id: &str, container: &str| {
        let body = json!({"id": id, "type": "token", "data": 1, "containers": [container]});
        SHARED.created(&ACME.private, &body);
    };
    create("cond-1", "/cond/");
    create("cond-12", "/cond/");
    create("cond-2", "/cond/below/");
    create("other-1", "/cond-other/");
    let all = ["cond-1", "cond-12", "cond-2", "other-1"];
    let one = |attribute: &str, operator: &str, value: &str| json!({"attribute": attribute, "operator": operator, "value": value});
    let below = one("container", "starts_with", "/cond/");
    let table: [(Value, &[&str]); 7] = [
        (json!([one("id", "equals", "cond-1")]), &["cond-1"]),
        (json!([one("id", "starts_with", "cond-1")]), &["cond-1", "cond-12"]),
        (json!([one("container", "equals", "/cond/")]), &["cond-1", "cond-12"]),
        (json!([below]), &["cond-1", "cond-12", "cond-2"]),
        (json!([below, one("id", "equals", "cond-12")]), &["cond-12"]),
        (json!([below, one("id", "equals", "other-1")]), &[]),
        (json!([one("container", "equals", "/COND/below/")]), &["cond-2"]),
    ];
    for (conditions_of, seen) in table {
        let session = lent(&ACME.private, conditions(&conditions_of, &["token:read"]));
        for id in all {
            let expected = if seen.contains(&id) { 200 } else { 403 };
            assert_eq!(SHARED.get(&session, id).status, expected, "{id} by {conditions_of}");
        }
        // Nor does an id tell whether there is such a token.
        assert_eq!(SHARED.get(&session, "cond-nobodys").status, 404);
    }
}

#[test]
fn a_condition_about_an_id_reaches_every_operation() {
    for id in ["mine-7", "mine-8"] {
        SHARED.created(&ACME.private, &json!({"id": id, "type": "token", "data": {"n": 1}}));
    }
    let only = json!([{"attribute": "id", "operator": "equals", "value": "mine-7"}]);
    let all = ["token:create", "token:read", "token:update", "token:delete"];
    let session = lent(&ACME.private, conditions(&only, &all));
    let patch = json!({"data": {"n": 2}});
    SHARED.patch(&session, "mine-8", &patch).refused(403, "token:update");
    SHARED.remove(&session, "/tokens/mine-8").refused(403, "token:delete");
    assert_eq!(SHARED.patch(&session, "mine-7", &patch).is(200)["data"]["n"], 2);
    let once = || {
        let ask = SHARED.ask("PATCH", "/tokens/mine-7").key(&session).once("patched-by-id");
        ask.patch(&json!({"data": {"n": 3}})).send()
    };
    let first = once().is(200);
    assert_eq!(once().is(200), first, "the replay knows the id");
    SHARED.remove(&session, "/tokens/mine-7").is(204);
    // A token that is not there yet has no id.
    SHARED.create(&session, &json!({"type": "token", "data": 1})).refused(403, "token:create");
}

#[test]
fn what_the_authorizer_loses_the_session_loses() {
    let (path, key) = authorizer(&json!([rule("/", "reveal", &["token:read"])]));
    let session = lent(&key, json!({"rules": [rule("/lost/", "reveal", &["token:read"])]}));
    let id = ssn("/lost/");
    let change = |rules: Value| {
        let body = json!({"name": "a", "rules": rules});
        SHARED.put(&ACME.management, &path, &body).is(200);
        SHARED.get(&session, &id)
    };
    assert_eq!(SHARED.get(&session, &id).is(200)["data"], CLEAR);
    let reply = change(json!([rule("/", "mask", &["token:read"])]));
    assert_eq!(reply.is(200)["data"], MASKED);
    let reply = change(json!([rule("/lost/", "redact", &["token:read"])]));
    assert!(reply.is(200).get("data").is_none());
    change(json!([rule("/kept/", "reveal", &["token:read"])])).refused(403, "token:read");
    change(json!([rule("/", "reveal", &["token:use"])])).refused(403, "token:read");
    let reply = change(json!([rule("/", "reveal", &["token:read", "token:delete"])]));
    assert_eq!(reply.is(200)["data"], CLEAR, "never more than it was lent, but that again");
    SHARED.remove(&session, &format!("/tokens/{id}")).refused(403, "token:delete");
}

#[test]
fn a_lent_condition_is_bounded_where_the_token_is() {
    let (_, key) = authorizer(&json!([
        rule("/bound/", "mask", &["token:read"]),
        rule("/free/", "reveal", &["token:read"]),
    ]));
    let (bound, free, outside) = (ssn("/bound/"), ssn("/free/"), ssn("/outside/"));
    let session = |id: &str| {
        let only = json!([{"attribute": "id", "operator": "equals", "value": id}]);
        lent(&key, conditions(&only, &["token:read"]))
    };
    assert_eq!(SHARED.get(&session(&free), &free).is(200)["data"], CLEAR);
    assert_eq!(SHARED.get(&session(&bound), &bound).is(200)["data"], MASKED);
    SHARED.get(&session(&outside), &outside).refused(403, "token:read");
}

#[test]
fn a_condition_is_measured_where_it_reaches() {
    let (_, key) = authorizer(&json!([
        {"container": "/m/n/", "transform": "mask", "permissions": ["token:read"], "priority": 0},
        rule("/m/", "reveal", &["token:read"]),
    ]));
    let at = |operator: &str, value: &str| json!({"attribute": "container", "operator": operator, "value": value});
    let (equals, below, root) =
        (at("equals", "/m/"), at("starts_with", "/m/"), at("starts_with", "/"));
    for (all, status) in [
        (json!([equals]), 204),
        (json!([root, equals]), 204),
        (json!([below]), 403),
        (json!([root]), 403),
        (json!([at("equals", "/m/n/")]), 403),
        (json!([at("starts_with", "/m/o/")]), 204),
    ] {
        let (_, reply) = lend(&key, conditions(&all, &["token:read"]));
        assert_eq!(reply.status, status, "{all}: {}", reply.text);
    }
}

#[test]
fn the_replay_of_a_token_that_was_found_knows_its_id() {
    let body = json!({"type": "token", "data": "found by a session", "deduplicate_token": true});
    let id = text(&SHARED.created(&ACME.private, &body), "id");
    let by_id = json!({
        "conditions": [{"attribute": "id", "operator": "equals", "value": id}],
        "transform": "reveal", "permissions": ["token:read"],
    });
    let rules = json!([rule("/", "reveal", &["token:create"]), by_id]);
    let session = lent(&ACME.private, json!({"rules": rules}));
    let create = || SHARED.ask("POST", "/tokens").key(&session).once("found").json(&body).send();
    let first = create().is(201);
    assert_eq!((&first["id"], &first["data"]), (&json!(id), &body["data"]));
    assert_eq!(create().is(201), first);
}
