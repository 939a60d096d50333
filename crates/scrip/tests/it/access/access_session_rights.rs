//! What an access session may do: what it was lent, and never more than its authorizer has now.

use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED_SERVER, TestResponse, text_field};

/// An application made over HTTP, so that it can be changed: its path and its key.
fn create_authorizer(rules: &Value) -> (String, String) {
    let body = json!({"name": "a", "type": "private", "rules": rules});
    let created = SHARED_SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"))
}

/// A new session, and the answer to authorizing it with this.
fn authorize_session(key: &str, mut body: Value) -> (String, TestResponse) {
    let session =
        SHARED_SERVER.request("POST", "/sessions").key(&ACME.public).send().expect_status(201);
    body["nonce"] = session["nonce"].clone();
    (text_field(&session, "session_key"), SHARED_SERVER.post(key, "/sessions/authorize", &body))
}

fn authorized_session(key: &str, body: Value) -> String {
    let (session, reply) = authorize_session(key, body);
    reply.expect_status(204);
    session
}

fn rule(container: &str, transform: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": transform, "permissions": permissions})
}

fn create_ssn_token(container: &str) -> String {
    let body =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": [container]});
    text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &body), "id")
}

const CLEAR: &str = "123-45-6789";
const MASKED: &str = "XXX-XX-6789";

#[test]
fn session_cannot_be_given_more_rights_than_its_authorizer_has() {
    let own = json!([
        rule("/a/", "reveal", &["token:read"]),
        rule("/b/", "mask", &["token:read", "token:update"]),
    ]);
    let (_, key) = create_authorizer(&own);
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
        let (session, reply) = authorize_session(&key, body.clone());
        match exceeds {
            None => drop(reply.expect_status(204)),
            Some(permission) => {
                reply.expect_problem(403, permission);
                SHARED_SERVER
                    .get_token(&session, &create_ssn_token("/a/"))
                    .expect_problem(403, "token:read");
            }
        }
    }
    // Plain permissions mask, and so cannot be lent in clear.
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let created = SHARED_SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    let reveal = json!({"rules": [rule("/", "reveal", &["token:read"])]});
    authorize_session(&text_field(&created, "key"), reveal).1.expect_problem(403, "token:read");
}

#[test]
fn session_rules_apply_to_containers_and_their_descendants() {
    let rules = json!([
        rule("/a/", "mask", &["token:read"]),
        rule("/a/b/", "reveal", &["token:read"]),
        {"container": "/c/", "transform": "reveal", "permissions": ["token:read"], "priority": 0},
    ]);
    let session = authorized_session(&ACME.private, json!({"rules": rules}));
    for (container, shown) in [("/a/", MASKED), ("/a/b/", MASKED), ("/c/d/", CLEAR)] {
        assert_eq!(
            SHARED_SERVER.get_token(&session, &create_ssn_token(container)).expect_status(200)["data"],
            shown,
            "{container}"
        );
    }
    SHARED_SERVER.get_token(&session, &create_ssn_token("/a-b/")).expect_problem(403, "token:read");
    let both = json!({"type": "token", "data": 1, "containers": ["/c/", "/elsewhere/"]});
    let both = text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &both), "id");
    SHARED_SERVER.get_token(&session, &both).expect_problem(403, "token:read");
}

fn rules_with_conditions(all: &Value, permissions: &[&str]) -> Value {
    json!({"rules": [{"conditions": all, "transform": "reveal", "permissions": permissions}]})
}

#[test]
fn conditions_match_ids_and_containers() {
    let create = |id: &str, container: &str| {
        let body = json!({"id": id, "type": "token", "data": 1, "containers": [container]});
        SHARED_SERVER.create_token_ok(&ACME.private, &body);
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
        let session = authorized_session(
            &ACME.private,
            rules_with_conditions(&conditions_of, &["token:read"]),
        );
        for id in all {
            let expected = if seen.contains(&id) { 200 } else { 403 };
            assert_eq!(
                SHARED_SERVER.get_token(&session, id).status,
                expected,
                "{id} by {conditions_of}"
            );
        }
        // Nor does an id tell whether there is such a token.
        assert_eq!(SHARED_SERVER.get_token(&session, "cond-nobodys").status, 404);
    }
}

#[test]
fn id_condition_is_enforced_by_every_operation() {
    for id in ["mine-7", "mine-8"] {
        SHARED_SERVER
            .create_token_ok(&ACME.private, &json!({"id": id, "type": "token", "data": {"n": 1}}));
    }
    let only = json!([{"attribute": "id", "operator": "equals", "value": "mine-7"}]);
    let all = ["token:create", "token:read", "token:update", "token:delete"];
    let session = authorized_session(&ACME.private, rules_with_conditions(&only, &all));
    let patch = json!({"data": {"n": 2}});
    SHARED_SERVER.patch_token(&session, "mine-8", &patch).expect_problem(403, "token:update");
    SHARED_SERVER.delete(&session, "/tokens/mine-8").expect_problem(403, "token:delete");
    assert_eq!(
        SHARED_SERVER.patch_token(&session, "mine-7", &patch).expect_status(200)["data"]["n"],
        2
    );
    let once = || {
        let ask = SHARED_SERVER
            .request("PATCH", "/tokens/mine-7")
            .key(&session)
            .idempotency_key("patched-by-id");
        ask.merge_patch(&json!({"data": {"n": 3}})).send()
    };
    let first = once().expect_status(200);
    assert_eq!(once().expect_status(200), first, "the replay knows the id");
    SHARED_SERVER.delete(&session, "/tokens/mine-7").expect_status(204);
    // A token that is not there yet has no id.
    SHARED_SERVER
        .create_token(&session, &json!({"type": "token", "data": 1}))
        .expect_problem(403, "token:create");
}

#[test]
fn session_loses_rights_that_its_authorizer_loses() {
    let (path, key) = create_authorizer(&json!([rule("/", "reveal", &["token:read"])]));
    let session =
        authorized_session(&key, json!({"rules": [rule("/lost/", "reveal", &["token:read"])]}));
    let id = create_ssn_token("/lost/");
    let change = |rules: Value| {
        let body = json!({"name": "a", "rules": rules});
        SHARED_SERVER.put(&ACME.management, &path, &body).expect_status(200);
        SHARED_SERVER.get_token(&session, &id)
    };
    assert_eq!(SHARED_SERVER.get_token(&session, &id).expect_status(200)["data"], CLEAR);
    let reply = change(json!([rule("/", "mask", &["token:read"])]));
    assert_eq!(reply.expect_status(200)["data"], MASKED);
    let reply = change(json!([rule("/lost/", "redact", &["token:read"])]));
    assert!(reply.expect_status(200).get("data").is_none());
    change(json!([rule("/kept/", "reveal", &["token:read"])])).expect_problem(403, "token:read");
    change(json!([rule("/", "reveal", &["token:use"])])).expect_problem(403, "token:read");
    let reply = change(json!([rule("/", "reveal", &["token:read", "token:delete"])]));
    assert_eq!(
        reply.expect_status(200)["data"],
        CLEAR,
        "never more than it was lent, but that again"
    );
    SHARED_SERVER.delete(&session, &format!("/tokens/{id}")).expect_problem(403, "token:delete");
}

#[test]
fn delegated_condition_is_limited_by_the_rights_on_the_token_container() {
    let (_, key) = create_authorizer(&json!([
        rule("/bound/", "mask", &["token:read"]),
        rule("/free/", "reveal", &["token:read"]),
    ]));
    let (bound, free, outside) =
        (create_ssn_token("/bound/"), create_ssn_token("/free/"), create_ssn_token("/outside/"));
    let session = |id: &str| {
        let only = json!([{"attribute": "id", "operator": "equals", "value": id}]);
        authorized_session(&key, rules_with_conditions(&only, &["token:read"]))
    };
    assert_eq!(SHARED_SERVER.get_token(&session(&free), &free).expect_status(200)["data"], CLEAR);
    assert_eq!(
        SHARED_SERVER.get_token(&session(&bound), &bound).expect_status(200)["data"],
        MASKED
    );
    SHARED_SERVER.get_token(&session(&outside), &outside).expect_problem(403, "token:read");
}

#[test]
fn container_condition_is_compared_with_rights_on_all_matching_containers() {
    let (_, key) = create_authorizer(&json!([
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
        let (_, reply) = authorize_session(&key, rules_with_conditions(&all, &["token:read"]));
        assert_eq!(reply.status, status, "{all}: {}", reply.text);
    }
}

#[test]
fn replay_of_a_deduplicated_token_checks_id_conditions() {
    let body = json!({"type": "token", "data": "found by a session", "deduplicate_token": true});
    let id = text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &body), "id");
    let by_id = json!({
        "conditions": [{"attribute": "id", "operator": "equals", "value": id}],
        "transform": "reveal", "permissions": ["token:read"],
    });
    let rules = json!([rule("/", "reveal", &["token:create"]), by_id]);
    let session = authorized_session(&ACME.private, json!({"rules": rules}));
    let create = || {
        SHARED_SERVER
            .request("POST", "/tokens")
            .key(&session)
            .idempotency_key("found")
            .json(&body)
            .send()
    };
    let first = create().expect_status(201);
    assert_eq!((&first["id"], &first["data"]), (&json!(id), &body["data"]));
    assert_eq!(create().expect_status(201), first);
}
