//! Rights of an access session: the delegated rights, and never more than the authorizer has now.

use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestResponse, text_field};

/// Creates an application over HTTP, so that the test can change it. Returns its path and its key.
fn create_authorizer(rules: &Value) -> (String, String) {
    let body = json!({"name": "a", "type": "private", "rules": rules});
    let created = SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"))
}

/// Creates a session and authorizes it with this body. Returns the session key and the response.
fn authorize_session(key: &str, mut body: Value) -> (String, TestResponse) {
    let session = SERVER.post_empty(&ACME.public, "/sessions").expect_status(201);
    body["nonce"] = session["nonce"].clone();
    (text_field(&session, "session_key"), SERVER.post(key, "/sessions/authorize", &body))
}

fn authorized_session(key: &str, body: Value) -> String {
    let (session, response) = authorize_session(key, body);
    response.expect_status(204);
    session
}

fn rule(container: &str, transform: &str, permissions: &[&str]) -> Value {
    json!({"container": container, "transform": transform, "permissions": permissions})
}

fn create_ssn_token(container: &str) -> String {
    let body =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": [container]});
    text_field(&SERVER.create_token_ok(&ACME.private, &body), "id")
}

const CLEAR: &str = "123-45-6789";
const MASKED: &str = "XXX-XX-6789";

#[test]
fn access_session_cannot_be_given_more_rights_than_its_authorizer_has() {
    let authorizer_rules = json!([
        rule("/a/", "reveal", &["token:read"]),
        rule("/b/", "mask", &["token:read", "token:update"]),
    ]);
    let (_, key) = create_authorizer(&authorizer_rules);
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
    for (body, denied_permission) in table {
        let (session, response) = authorize_session(&key, body.clone());
        match denied_permission {
            None => drop(response.expect_status(204)),
            Some(permission) => {
                response.expect_problem(403, permission);
                SERVER
                    .get_token(&session, &create_ssn_token("/a/"))
                    .expect_problem(403, "token:read");
            }
        }
    }
    // A permission without a rule only masks data, so it cannot be delegated with the reveal
    // transform.
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let created = SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    let reveal_rules = json!({"rules": [rule("/", "reveal", &["token:read"])]});
    authorize_session(&text_field(&created, "key"), reveal_rules)
        .1
        .expect_problem(403, "token:read");
}

#[test]
fn access_session_rules_apply_to_containers_and_their_descendants() {
    let rules = json!([
        rule("/a/", "mask", &["token:read"]),
        rule("/a/b/", "reveal", &["token:read"]),
        {"container": "/c/", "transform": "reveal", "permissions": ["token:read"], "priority": 0},
    ]);
    let session = authorized_session(&ACME.private, json!({"rules": rules}));
    for (container, expected) in [("/a/", MASKED), ("/a/b/", MASKED), ("/c/d/", CLEAR)] {
        assert_eq!(
            SERVER.get_token(&session, &create_ssn_token(container)).expect_status(200)["data"],
            expected,
            "{container}"
        );
    }
    SERVER.get_token(&session, &create_ssn_token("/a-b/")).expect_problem(403, "token:read");
    let both = json!({"type": "token", "data": 1, "containers": ["/c/", "/elsewhere/"]});
    let both = text_field(&SERVER.create_token_ok(&ACME.private, &both), "id");
    SERVER.get_token(&session, &both).expect_problem(403, "token:read");
}

fn rules_with_conditions(conditions: &Value, permissions: &[&str]) -> Value {
    json!({"rules": [
        {"conditions": conditions, "transform": "reveal", "permissions": permissions}
    ]})
}

#[test]
fn access_session_conditions_match_ids_and_containers() {
    let create_token = |id: &str, container: &str| {
        let body = json!({"id": id, "type": "token", "data": 1, "containers": [container]});
        SERVER.create_token_ok(&ACME.private, &body);
    };
    create_token("cond-1", "/cond/");
    create_token("cond-12", "/cond/");
    create_token("cond-2", "/cond/below/");
    create_token("other-1", "/cond-other/");
    let token_ids = ["cond-1", "cond-12", "cond-2", "other-1"];
    let build_condition = |attribute: &str, operator: &str, value: &str| {
        json!({"attribute": attribute,
        "operator": operator, "value": value})
    };
    let container_condition = build_condition("container", "starts_with", "/cond/");
    let table: [(Value, &[&str]); 7] = [
        (json!([build_condition("id", "equals", "cond-1")]), &["cond-1"]),
        (json!([build_condition("id", "starts_with", "cond-1")]), &["cond-1", "cond-12"]),
        (json!([build_condition("container", "equals", "/cond/")]), &["cond-1", "cond-12"]),
        (json!([container_condition]), &["cond-1", "cond-12", "cond-2"]),
        (json!([container_condition, build_condition("id", "equals", "cond-12")]), &["cond-12"]),
        (json!([container_condition, build_condition("id", "equals", "other-1")]), &[]),
        (json!([build_condition("container", "equals", "/COND/below/")]), &["cond-2"]),
    ];
    for (conditions, visible_ids) in table {
        let session =
            authorized_session(&ACME.private, rules_with_conditions(&conditions, &["token:read"]));
        for id in token_ids {
            let expected = if visible_ids.contains(&id) { 200 } else { 403 };
            assert_eq!(SERVER.get_token(&session, id).status, expected, "{id} by {conditions}");
        }
        // An unknown id gets 404.
        assert_eq!(SERVER.get_token(&session, "cond-nobodys").status, 404);
    }
}

#[test]
fn access_session_id_condition_is_enforced_by_every_operation() {
    for id in ["mine-7", "mine-8"] {
        SERVER
            .create_token_ok(&ACME.private, &json!({"id": id, "type": "token", "data": {"n": 1}}));
    }
    let id_condition = json!([{"attribute": "id", "operator": "equals", "value": "mine-7"}]);
    let permissions = ["token:create", "token:read", "token:update", "token:delete"];
    let session =
        authorized_session(&ACME.private, rules_with_conditions(&id_condition, &permissions));
    let patch = json!({"data": {"n": 2}});
    SERVER.patch_token(&session, "mine-8", &patch).expect_problem(403, "token:update");
    SERVER.delete(&session, "/tokens/mine-8").expect_problem(403, "token:delete");
    assert_eq!(SERVER.patch_token(&session, "mine-7", &patch).expect_status(200)["data"]["n"], 2);
    let create_with_key = || {
        let request = SERVER
            .request("PATCH", "/tokens/mine-7")
            .key(&session)
            .idempotency_key("patched-by-id");
        request.merge_patch(&json!({"data": {"n": 3}})).send()
    };
    let first = create_with_key().expect_status(200);
    assert_eq!(create_with_key().expect_status(200), first, "the replay knows the id");
    SERVER.delete(&session, "/tokens/mine-7").expect_status(204);
    // The id of a new token is not known before it is created.
    SERVER
        .create_token(&session, &json!({"type": "token", "data": 1}))
        .expect_problem(403, "token:create");
}

#[test]
fn access_session_loses_rights_that_its_authorizer_loses() {
    let (path, key) = create_authorizer(&json!([rule("/", "reveal", &["token:read"])]));
    let session =
        authorized_session(&key, json!({"rules": [rule("/lost/", "reveal", &["token:read"])]}));
    let id = create_ssn_token("/lost/");
    let replace_rules = |rules: Value| {
        let body = json!({"name": "a", "rules": rules});
        SERVER.put(&ACME.management, &path, &body).expect_status(200);
        SERVER.get_token(&session, &id)
    };
    assert_eq!(SERVER.get_token(&session, &id).expect_status(200)["data"], CLEAR);
    let response = replace_rules(json!([rule("/", "mask", &["token:read"])]));
    assert_eq!(response.expect_status(200)["data"], MASKED);
    let response = replace_rules(json!([rule("/lost/", "redact", &["token:read"])]));
    assert!(response.expect_status(200).get("data").is_none());
    replace_rules(json!([rule("/kept/", "reveal", &["token:read"])]))
        .expect_problem(403, "token:read");
    replace_rules(json!([rule("/", "reveal", &["token:use"])])).expect_problem(403, "token:read");
    let response = replace_rules(json!([rule("/", "reveal", &["token:read", "token:delete"])]));
    assert_eq!(
        response.expect_status(200)["data"],
        CLEAR,
        "the delegated rights apply again, and no others"
    );
    SERVER.delete(&session, &format!("/tokens/{id}")).expect_problem(403, "token:delete");
}

#[test]
fn delegated_condition_is_limited_by_the_rights_on_the_token_container() {
    let (_, key) = create_authorizer(&json!([
        rule("/bound/", "mask", &["token:read"]),
        rule("/free/", "reveal", &["token:read"]),
    ]));
    let (masked_token, revealed_token, outside_token) =
        (create_ssn_token("/bound/"), create_ssn_token("/free/"), create_ssn_token("/outside/"));
    let create_session = |id: &str| {
        let id_condition = json!([{"attribute": "id", "operator": "equals", "value": id}]);
        authorized_session(&key, rules_with_conditions(&id_condition, &["token:read"]))
    };
    assert_eq!(
        SERVER.get_token(&create_session(&revealed_token), &revealed_token).expect_status(200)["data"],
        CLEAR
    );
    let response = SERVER.get_token(&create_session(&masked_token), &masked_token);
    assert_eq!(response.expect_status(200)["data"], MASKED);
    SERVER
        .get_token(&create_session(&outside_token), &outside_token)
        .expect_problem(403, "token:read");
}

#[test]
fn container_condition_is_compared_with_rights_on_all_matching_containers() {
    let (_, key) = create_authorizer(&json!([
        {"container": "/m/n/", "transform": "mask", "permissions": ["token:read"], "priority": 0},
        rule("/m/", "reveal", &["token:read"]),
    ]));
    let build_condition = |operator: &str, value: &str| {
        json!({"attribute": "container",
        "operator": operator, "value": value})
    };
    let (equals_condition, starts_with_condition, root_condition) = (
        build_condition("equals", "/m/"),
        build_condition("starts_with", "/m/"),
        build_condition("starts_with", "/"),
    );
    for (conditions, status) in [
        (json!([equals_condition]), 204),
        (json!([root_condition, equals_condition]), 204),
        (json!([starts_with_condition]), 403),
        (json!([root_condition]), 403),
        (json!([build_condition("equals", "/m/n/")]), 403),
        (json!([build_condition("starts_with", "/m/o/")]), 204),
    ] {
        let (_, response) =
            authorize_session(&key, rules_with_conditions(&conditions, &["token:read"]));
        assert_eq!(response.status, status, "{conditions}: {}", response.text);
    }
}

#[test]
fn replay_of_a_deduplicated_token_checks_id_conditions() {
    let body =
        json!({"type": "us_bank_account_number", "data": "80421977", "deduplicate_token": true});
    let id = text_field(&SERVER.create_token_ok(&ACME.private, &body), "id");
    let by_id = json!({
        "conditions": [{"attribute": "id", "operator": "equals", "value": id}],
        "transform": "reveal", "permissions": ["token:read"],
    });
    let rules = json!([rule("/", "reveal", &["token:create"]), by_id]);
    let session = authorized_session(&ACME.private, json!({"rules": rules}));
    let create_with_key = || SERVER.post_once(&session, "/tokens", "found", &body);
    let first = create_with_key().expect_status(201);
    assert_eq!((&first["id"], &first["data"]), (&json!(id), &body["data"]));
    assert_eq!(create_with_key().expect_status(201), first);
}
