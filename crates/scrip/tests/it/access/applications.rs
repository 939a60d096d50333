//! Applications: their attributes and changes. A change applies to the next request.

use scrip_testing::requests::assert_members;
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestResponse, text_field, text_fields};

fn try_create(body: &Value) -> TestResponse {
    SERVER.post(&ACME.management, "/applications", body)
}

fn create_application(body: &Value) -> Value {
    try_create(body).expect_status(201)
}

fn reader_body(name: &str) -> Value {
    json!({"name": name, "type": "private", "permissions": ["token:read"]})
}

fn application_path(application: &Value) -> String {
    format!("/applications/{}", text_field(application, "id"))
}

#[test]
fn created_application_has_its_rules_and_a_working_key() {
    let rule = json!({
        "description": "cards", "priority": 3, "container": "/pci/", "transform": "mask",
        "permissions": ["token:create", "token:read"],
    });
    let body =
        json!({"name": "Shop", "type": "private", "permissions": ["token:use"], "rules": [rule]});
    let application = create_application(&body);
    let key = text_field(&application, "key");
    assert!(key.starts_with("key_test_us_pvt_") && key.len() > 40, "{key}");
    assert_members(
        &application,
        &json!({"type": "private", "permissions": ["token:use"], "rules": [rule]}),
    );
    assert_eq!(application["keys"].as_array().unwrap().len(), 1);
    let update_response = SERVER.put(&ACME.management, &application_path(&application), &body);
    let by_key = SERVER.get_path(&key, "/applications/key");
    for response in [&update_response, &by_key] {
        assert_eq!(response.status, 200, "the key does not work immediately");
        assert!(!response.text.contains("key_test_"), "{}", response.text);
    }
}

#[test]
fn create_key_false_creates_an_application_without_key() {
    for (create_key, keys) in [(json!(true), 1), (json!(false), 0), (Value::Null, 1)] {
        let mut body = reader_body("keys");
        body["create_key"] = create_key;
        let application = create_application(&body);
        assert_eq!(application["keys"].as_array().unwrap().len(), keys);
        assert_eq!(application.get("key").is_some(), keys == 1);
    }
    for (kind, permission, key_prefix) in
        [("public", "token:create", "pub"), ("management", "tenant:read", "mgt")]
    {
        let application =
            create_application(&json!({"name": "x", "type": kind, "permissions": [permission]}));
        assert!(text_field(&application, "key").starts_with(&format!("key_test_us_{key_prefix}_")));
    }
}

#[test]
fn name_permissions_and_rules_of_an_application_are_normalized() {
    let name = "é".repeat(200);
    let body = json!({
        "name": format!("  {name} "), "type": "private", "permissions": null,
        "rules": [
            {"container": "/B/", "transform": "redact", "permissions": ["token:read", "token:read"]},
            {"container": "/a/", "transform": "reveal", "permissions": ["token:read"], "priority": 0,
             "conditions": []},
        ],
    });
    let application = create_application(&body);
    assert_eq!(application["name"], name);
    assert_eq!(application["permissions"], json!([]));
    let first = json!({"description": "", "priority": 1, "container": "/b/", "transform": "redact", "permissions": ["token:read"]});
    assert_eq!(application["rules"][0], first);
    assert_eq!(application["rules"][1]["container"], "/a/", "rules are not in their order");
}

/// Returns a valid rule with one attribute changed.
fn rules_with(name: &str, value: Value) -> Value {
    let mut rule = json!({"container": "/a/", "transform": "mask", "permissions": ["token:read"]});
    rule[name] = value;
    json!([rule])
}

/// Returns invalid names and access policies, with the attribute that the error must name.
fn invalid_access_policies() -> Vec<(&'static str, Value, &'static str)> {
    let long_text = "x".repeat(501);
    let id_is = json!([{"attribute": "id", "operator": "equals", "value": "x"}]);
    let mut rule_with_conditions = rules_with("conditions", id_is.clone())[0].clone();
    rule_with_conditions["container"] = Value::Null;
    let valid_rule = rules_with("priority", json!(1))[0].clone();
    let invalid_rule = rules_with("transform", json!("show"))[0].clone();
    vec![
        ("name", json!("  "), "name"),
        ("name", json!("x".repeat(201)), "name"),
        ("name", json!("a\nb"), "name"),
        ("name", json!(7), "name"),
        ("permissions", json!("token:read"), "permissions"),
        ("permissions", json!(["token:read", 7]), "permissions"),
        ("permissions", json!(["token:read", "token:eat"]), "permissions[1]"),
        ("permissions", json!(["token:read", "TOKEN:READ"]), "permissions[1]"),
        ("permissions", json!(["token:read", "tenant:read"]), "permissions"),
        ("permissions", json!([]), "permissions"),
        ("permissions", Value::Null, "permissions"),
        ("rules", json!({}), "rules"),
        ("rules", json!([7]), "rules[0]"),
        ("rules", json!([valid_rule, invalid_rule]), "rules[1].transform"),
        ("rules", json!(vec![valid_rule.clone(); 65]), "rules"),
        ("rules", rules_with("container", Value::Null), "rules[0].container"),
        ("rules", rules_with("container", json!("/a")), "rules[0].container"),
        ("rules", rules_with("container", json!("")), "rules[0].container"),
        ("rules", rules_with("container", json!(["/a/"])), "rules[0].container"),
        ("rules", rules_with("conditions", id_is), "rules[0].conditions"),
        ("rules", json!([rule_with_conditions]), "rules[0].conditions"),
        ("rules", rules_with("transform", Value::Null), "rules[0].transform"),
        ("rules", rules_with("transform", json!("Reveal")), "rules[0].transform"),
        ("rules", rules_with("transform", json!(1)), "rules[0].transform"),
        ("rules", rules_with("priority", json!(-1)), "rules[0].priority"),
        ("rules", rules_with("priority", json!(1.5)), "rules[0].priority"),
        ("rules", rules_with("priority", json!("1")), "rules[0].priority"),
        ("rules", rules_with("permissions", Value::Null), "rules[0].permissions"),
        ("rules", rules_with("permissions", json!([])), "rules[0].permissions"),
        ("rules", rules_with("permissions", json!("token:read")), "rules[0].permissions"),
        ("rules", rules_with("permissions", json!(["x"])), "rules[0].permissions[0]"),
        ("rules", rules_with("permissions", json!(["log:read"])), "rules[0].permissions"),
        ("rules", rules_with("description", json!(long_text)), "rules[0].description"),
        ("rules", rules_with("description", json!(7)), "rules[0].description"),
    ]
}

#[test]
fn invalid_application_names_the_attribute() {
    let application = create_application(&reader_body("remaining"));
    let list_applications =
        || SERVER.get_path(&ACME.management, &application_path(&application)).expect_status(200);
    let list_before = list_applications();
    for (name, value, attribute) in invalid_access_policies() {
        let mut body = reader_body("wrong");
        body[name] = value;
        try_create(&body).expect_invalid(attribute);
        let path = application_path(&application);
        SERVER.put(&ACME.management, &path, &body).expect_invalid(attribute);
    }
    for (name, value) in [
        ("type", json!("robot")),
        ("type", json!("Private")),
        ("type", json!(7)),
        ("type", Value::Null),
        ("create_key", json!("no")),
    ] {
        let mut body = reader_body("wrong");
        body[name] = value;
        try_create(&body).expect_invalid(name);
    }
    // All errors are reported together.
    let empty_body_response = try_create(&json!({}));
    empty_body_response.expect_invalid("name");
    empty_body_response.expect_invalid("type");
    try_create(&json!([])).expect_problem(400, "object");
    assert_eq!(list_applications(), list_before);
}

#[test]
fn application_type_limits_its_permissions() {
    let table = [
        ("public", "token:read"),
        ("public", "tenant:read"),
        ("public", "token:use"),
        ("private", "application:create"),
        ("management", "token:create"),
        ("management", "token:read"),
    ];
    for (kind, permission) in table {
        let body_with_permission = json!({"name": "x", "type": kind, "permissions": [permission]});
        try_create(&body_with_permission).expect_invalid("permissions");
        let rules = rules_with("permissions", json!([permission]));
        let body_with_rule = json!({"name": "x", "type": kind, "rules": rules});
        try_create(&body_with_rule).expect_invalid("rules[0].permissions");
    }
}

#[test]
fn update_application_replaces_permissions_and_keeps_the_type() {
    let body = json!({"name": "before", "type": "public", "permissions": ["token:create"]});
    let application = create_application(&body);
    let key = text_field(&application, "key");
    let send_update =
        |body: &Value| SERVER.put(&ACME.management, &application_path(&application), body);
    let updated = send_update(&json!({
        "name": "after", "type": "management", "create_key": true,
        "rules": [{"container": "/a/", "transform": "redact", "permissions": ["token:update"]}],
    }))
    .expect_status(200);
    assert_eq!((&updated["type"], &updated["permissions"]), (&json!("public"), &json!([])));
    assert_eq!(updated["keys"][0]["id"], application["keys"][0]["id"]);
    let token = json!({"type": "token", "data": 1});
    SERVER.create_token(&key, &token).expect_problem(403, "token:create");
    send_update(&json!({"name": "a", "permissions": ["token:read"]})).expect_invalid("permissions");
    send_update(&json!({"name": "a"})).expect_invalid("permissions");
    send_update(&body).expect_status(200);
    SERVER.create_token(&key, &token).expect_status(201);
}

#[test]
fn changed_rule_applies_to_the_next_request() {
    let body = |transform: &str, container: &str| {
        let rule =
            json!({"container": container, "transform": transform, "permissions": ["token:read"]});
        json!({"name": "x", "type": "private", "rules": [rule]})
    };
    let application = create_application(&body("mask", "/"));
    let key = text_field(&application, "key");
    let token =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": ["/seen/"]});
    let id = SERVER.create_token_id(&ACME.private, &token);
    let read_with = |transform, container| {
        let (path, body) = (application_path(&application), body(transform, container));
        SERVER.put(&ACME.management, &path, &body).expect_status(200);
        SERVER.get_token(&key, &id)
    };
    assert_eq!(SERVER.get_token(&key, &id).expect_status(200)["data"], "XXX-XX-6789");
    assert_eq!(read_with("reveal", "/seen/").expect_status(200)["data"], "123-45-6789");
    assert!(read_with("redact", "/").expect_status(200).get("data").is_none());
    read_with("reveal", "/unseen/").expect_problem(403, "token:read");
}

#[test]
fn application_can_remove_its_own_permissions_and_delete_itself() {
    let permissions = json!(["application:read", "application:update", "application:delete"]);
    let body = json!({"name": "leaves", "type": "management", "permissions": permissions});
    let application = create_application(&body);
    let (key, path) = (text_field(&application, "key"), application_path(&application));
    let reduced_body = json!({"name": "x", "permissions": ["application:delete"]});
    SERVER.put(&key, &path, &reduced_body).expect_status(200);
    SERVER.put(&key, &path, &reduced_body).expect_problem(403, "application:update");
    assert_eq!(SERVER.delete(&key, &path).status, 204);
    SERVER.delete(&key, &path).expect_problem(401, "BT-API-KEY");
}

#[test]
fn keys_of_a_deleted_application_are_rejected() {
    let [application, other_application] =
        ["deleted", "remaining"].map(|it| create_application(&reader_body(it)));
    let path = application_path(&application);
    let second_key = SERVER.post_empty(&ACME.management, &format!("{path}/keys"));
    let keys = [text_field(&application, "key"), text_field(&second_key.expect_status(201), "key")];
    SERVER.delete(&ACME.management, &path).expect_status(204);
    for key in &keys {
        SERVER.get_token(key, "whatever").expect_problem(401, "BT-API-KEY");
    }
    let keys_of_deleted = SERVER.get_path(&ACME.management, &format!("{path}/keys"));
    keys_of_deleted.expect_problem(404, "Not found.");
    let other_key = text_field(&other_application, "key");
    SERVER.get_token(&other_key, "whatever").expect_problem(404, "Not found.");
}

#[test]
fn get_application_by_key_returns_the_application_of_the_key() {
    for (key, kind) in
        [(&ACME.private, "private"), (&ACME.public, "public"), (&ACME.management, "management")]
    {
        let application_of_key = SERVER.get_path(key, "/applications/key/").expect_status(200);
        assert_eq!(application_of_key["type"], kind);
        let path = application_path(&application_of_key);
        let read = SERVER.get_path(&ACME.management, &path).expect_status(200);
        assert_eq!(read, application_of_key);
    }
    let application = create_application(&reader_body("caller"));
    let key = text_field(&application, "key");
    let own_application = SERVER.get_path(&key, "/applications/key").expect_status(200);
    assert_eq!(own_application["id"], application["id"]);
    SERVER.get_path(&key, &application_path(&application)).expect_problem(403, "application:read");
    // An access session gets the application that created it.
    let session = SERVER.post_empty(&ACME.public, "/sessions").expect_status(201);
    let of_session = SERVER.get_path(&text_field(&session, "session_key"), "/applications/key");
    assert_eq!(of_session.expect_status(200)["type"], "public");
    assert!(SERVER.request("PUT", "/applications/key").key(&ACME.management).send().status == 405);
}

#[test]
fn regenerate_application_key_is_410() {
    let application = create_application(&reader_body("old"));
    for path in [application_path(&application), "/applications/abc".to_owned()] {
        for key in [&ACME.management, &text_field(&application, "key")] {
            let path = format!("{path}/regenerate");
            SERVER.post_empty(key, &path).expect_problem(410, "create another key");
        }
    }
    SERVER.get_path(&text_field(&application, "key"), "/applications/key").expect_status(200);
}

#[test]
fn applications_are_filtered_by_type() {
    let keys = SERVER.create_default_tenant();
    let list = |query: &str| SERVER.get_path(&keys.management, &format!("/applications?{query}"));
    for (query, kinds) in
        [("type=private", &["private"][..]), ("type=public&type=private", &["public", "private"])]
    {
        let page = list(query).expect_status(200);
        let mut listed = text_fields(&page["data"], "type");
        listed.sort_by_key(|it| kinds.iter().position(|kind| kind == it));
        assert_eq!(listed, kinds, "{query}");
        assert_eq!(page["pagination"]["total_items"], kinds.len());
    }
    let by_id = list("type=management").expect_status(200)["data"][0].clone();
    let path = format!("type=private&id={}", text_field(&by_id, "id"));
    assert_eq!(list(&path).expect_status(200)["data"], json!([]));
    list("type=robot").expect_invalid("type");
    list("type=private&type=").expect_invalid("type");
}
