//! Rights of an access session: the delegated rights, and never more than the authorizer has now.

use serde_json::{Value, json};

use crate::{
    access::create_ssn_token,
    harness::{
        entities::CreatedApplication,
        server::{ACME, SERVER, TestResponse, text_field},
    },
};

/// Creates an application, so that the test can change it.
fn create_authorizer(rules: &Value) -> CreatedApplication {
    SERVER.create_application(&ACME.management, "private", &json!({"rules": rules}))
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

const CLEAR: &str = "123-45-6789";
const MASKED: &str = "XXX-XX-6789";

#[test]
fn access_session_cannot_be_given_more_rights_than_its_authorizer_has() {
    let authorizer_rules = json!([
        rule("/a/", "reveal", &["token:read"]),
        rule("/b/", "mask", &["token:read", "token:update"]),
    ]);
    let key = create_authorizer(&authorizer_rules).key;
    let two_rules = [rule("/a/", "reveal", &["token:read"]), rule("/b/", "mask", &["token:use"])];
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
        (json!({"rules": two_rules}), Some("token:use")),
    ];
    for (body, denied_permission) in table {
        let (session, response) = authorize_session(&key, body.clone());
        match denied_permission {
            None => drop(response.expect_status(204)),
            Some(permission) => {
                response.expect_problem(403, permission);
                let token = create_ssn_token("/a/");
                SERVER.get_token(&session, &token).expect_problem(403, "token:read");
            }
        }
    }
    // A permission without a rule only masks data, so it cannot be delegated with the reveal
    // transform.
    let permissions = json!({"permissions": ["token:read"]});
    let reader = SERVER.create_application(&ACME.management, "private", &permissions);
    let reveal_rules = json!({"rules": [rule("/", "reveal", &["token:read"])]});
    authorize_session(&reader.key, reveal_rules).1.expect_problem(403, "token:read");
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
        let token = SERVER.get_token(&session, &create_ssn_token(container)).expect_status(200);
        assert_eq!(token["data"], expected, "{container}");
    }
    SERVER.get_token(&session, &create_ssn_token("/a-b/")).expect_problem(403, "token:read");
    let both = json!({"type": "token", "data": 1, "containers": ["/c/", "/elsewhere/"]});
    let both = SERVER.create_token_id(&ACME.private, &both);
    SERVER.get_token(&session, &both).expect_problem(403, "token:read");
}

fn build_condition(attribute: &str, operator: &str, value: &str) -> Value {
    json!({"attribute": attribute, "operator": operator, "value": value})
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
        let body = json!({"id": id, "type": "token", "data": {"n": 1}});
        SERVER.create_token_ok(&ACME.private, &body);
    }
    let id_condition = json!([build_condition("id", "equals", "mine-7")]);
    let permissions = ["token:create", "token:read", "token:update", "token:delete"];
    let session =
        authorized_session(&ACME.private, rules_with_conditions(&id_condition, &permissions));
    let patch = json!({"data": {"n": 2}});
    SERVER.patch_token(&session, "mine-8", &patch).expect_problem(403, "token:update");
    SERVER.delete(&session, "/tokens/mine-8").expect_problem(403, "token:delete");
    assert_eq!(SERVER.patch_token(&session, "mine-7", &patch).expect_status(200)["data"]["n"], 2);
    let create_with_key = || {
        let request = SERVER.request("PATCH", "/tokens/mine-7").key(&session);
        request.idempotency_key("patched-by-id").merge_patch(&json!({"data": {"n": 3}})).send()
    };
    let first = create_with_key().expect_status(200);
    assert_eq!(create_with_key().expect_status(200), first, "the replay knows the id");
    SERVER.delete(&session, "/tokens/mine-7").expect_status(204);
    // The id of a new token is not known before it is created.
    let new_token = json!({"type": "token", "data": 1});
    SERVER.create_token(&session, &new_token).expect_problem(403, "token:create");
}

#[test]
fn access_session_loses_rights_that_its_authorizer_loses() {
    let authorizer = create_authorizer(&json!([rule("/", "reveal", &["token:read"])]));
    let lost = json!({"rules": [rule("/lost/", "reveal", &["token:read"])]});
    let session = authorized_session(&authorizer.key, lost);
    let id = create_ssn_token("/lost/");
    let replace_rules = |rules: Value| {
        let body = json!({"name": "a", "rules": rules});
        SERVER.put(&ACME.management, &authorizer.path, &body).expect_status(200);
        SERVER.get_token(&session, &id)
    };
    assert_eq!(SERVER.get_token(&session, &id).expect_status(200)["data"], CLEAR);
    let response = replace_rules(json!([rule("/", "mask", &["token:read"])]));
    assert_eq!(response.expect_status(200)["data"], MASKED);
    let response = replace_rules(json!([rule("/lost/", "redact", &["token:read"])]));
    assert!(response.expect_status(200).get("data").is_none());
    for other in [rule("/kept/", "reveal", &["token:read"]), rule("/", "reveal", &["token:use"])] {
        replace_rules(json!([other])).expect_problem(403, "token:read");
    }
    // The delegated rights apply again, and no others.
    let response = replace_rules(json!([rule("/", "reveal", &["token:read", "token:delete"])]));
    assert_eq!(response.expect_status(200)["data"], CLEAR);
    SERVER.delete(&session, &format!("/tokens/{id}")).expect_problem(403, "token:delete");
}

#[test]
fn delegated_condition_is_limited_by_the_rights_on_the_token_container() {
    let authorizer = create_authorizer(&json!([
        rule("/bound/", "mask", &["token:read"]),
        rule("/free/", "reveal", &["token:read"]),
    ]));
    let read_in_session = |container: &str| {
        let id = create_ssn_token(container);
        let rules =
            rules_with_conditions(&json!([build_condition("id", "equals", &id)]), &["token:read"]);
        SERVER.get_token(&authorized_session(&authorizer.key, rules), &id)
    };
    assert_eq!(read_in_session("/free/").expect_status(200)["data"], CLEAR);
    assert_eq!(read_in_session("/bound/").expect_status(200)["data"], MASKED);
    read_in_session("/outside/").expect_problem(403, "token:read");
}

#[test]
fn container_condition_is_compared_with_rights_on_all_matching_containers() {
    let CreatedApplication { key, .. } = create_authorizer(&json!([
        {"container": "/m/n/", "transform": "mask", "permissions": ["token:read"], "priority": 0},
        rule("/m/", "reveal", &["token:read"]),
    ]));
    let equals = |container: &str| build_condition("container", "equals", container);
    let starts_with = |container: &str| build_condition("container", "starts_with", container);
    for (conditions, status) in [
        (json!([equals("/m/")]), 204),
        (json!([starts_with("/"), equals("/m/")]), 204),
        (json!([starts_with("/m/")]), 403),
        (json!([starts_with("/")]), 403),
        (json!([equals("/m/n/")]), 403),
        (json!([starts_with("/m/o/")]), 204),
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
    let id = SERVER.create_token_id(&ACME.private, &body);
    let by_id = json!({
                "conditions": [build_condition("id", "equals", &id)],
        "transform": "reveal", "permissions": ["token:read"],
    });
    let rules = json!([rule("/", "reveal", &["token:create"]), by_id]);
    let session = authorized_session(&ACME.private, json!({"rules": rules}));
    let create_with_key = || SERVER.post_once(&session, "/tokens", "found", &body);
    let first = create_with_key().expect_status(201);
    assert_eq!((&first["id"], &first["data"]), (&json!(id), &body["data"]));
    assert_eq!(create_with_key().expect_status(201), first);
}
