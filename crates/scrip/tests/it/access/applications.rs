//! Applications: what they are made of, and that a change counts at the next request.

use scrip_core::policy::TenantSettings;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::server::{ACME, SHARED_SERVER, TestResponse, text_field};

fn try_create(body: &Value) -> TestResponse {
    SHARED_SERVER.post(&ACME.management, "/applications", body)
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
fn created_application_shows_its_key_once() {
    let rule = json!({
        "description": "cards", "priority": 3, "container": "/pci/", "transform": "mask",
        "permissions": ["token:create", "token:read"],
    });
    let body =
        json!({"name": "Shop", "type": "private", "permissions": ["token:use"], "rules": [rule]});
    let made = create_application(&body);
    let myself = SHARED_SERVER.get_path(&ACME.management, "/applications/key").expect_status(200);
    let key = text_field(&made, "key");
    assert!(key.starts_with("key_test_us_pvt_") && key.len() > 40, "{key}");
    for (name, expected) in [
        ("name", json!("Shop")),
        ("type", json!("private")),
        ("tenant_id", json!(ACME.tenant.id.to_string())),
        ("permissions", json!(["token:use"])),
        ("rules", json!([rule])),
        ("created_by", myself["id"].clone()),
        ("modified_by", Value::Null),
        ("modified_at", Value::Null),
    ] {
        assert_eq!(made[name], expected, "{name}");
    }
    assert_eq!(made["keys"].as_array().unwrap().len(), 1);

    let mut later = made.clone();
    later.as_object_mut().unwrap().remove("key");
    later["keys"][0].as_object_mut().unwrap().remove("key");
    assert_eq!(
        SHARED_SERVER.get_path(&ACME.management, &application_path(&made)).expect_status(200),
        later
    );
    let listed = SHARED_SERVER
        .get_path(&ACME.management, &format!("/applications?id={}", text_field(&made, "id")));
    assert_eq!(listed.expect_status(200)["data"], json!([later]));
    let updated = SHARED_SERVER.put(&ACME.management, &application_path(&made), &body);
    let by_key = SHARED_SERVER.get_path(&key, "/applications/key");
    for reply in [&updated, &by_key] {
        assert_eq!(reply.status, 200, "the key works at once");
        assert!(!reply.text.contains("key_test_"), "{}", reply.text);
    }
}

#[test]
fn create_key_false_creates_an_application_without_key() {
    for (create_key, keys) in [(json!(true), 1), (json!(false), 0), (Value::Null, 1)] {
        let mut body = reader_body("keys");
        body["create_key"] = create_key;
        let made = create_application(&body);
        assert_eq!(made["keys"].as_array().unwrap().len(), keys);
        assert_eq!(made.get("key").is_some(), keys == 1);
    }
    for (kind, permission, mark) in
        [("public", "token:create", "pub"), ("management", "tenant:read", "mgt")]
    {
        let made =
            create_application(&json!({"name": "x", "type": kind, "permissions": [permission]}));
        assert!(text_field(&made, "key").starts_with(&format!("key_test_us_{mark}_")));
    }
}

#[test]
fn optional_and_unknown_application_attributes_are_accepted() {
    let name = "é".repeat(200);
    let body = json!({
        "name": format!("  {name} "), "type": "private", "id": "mine", "unknown": 1, "permissions": null,
        "rules": [
            {"container": "/B/", "transform": "redact", "permissions": ["token:read", "token:read"]},
            {"container": "/a/", "transform": "reveal", "permissions": ["token:read"], "priority": 0,
             "conditions": []},
        ],
    });
    let made = create_application(&body);
    assert_eq!(made["name"], name);
    assert!(Uuid::try_parse(&text_field(&made, "id")).is_ok());
    assert_eq!(made["permissions"], json!([]));
    let first = json!({"description": "", "priority": 1, "container": "/b/", "transform": "redact", "permissions": ["token:read"]});
    assert_eq!(made["rules"][0], first);
    assert_eq!(made["rules"][1]["container"], "/a/", "as they were written");
}

/// A rule that is right, with one attribute changed.
fn rules_with(name: &str, value: Value) -> Value {
    let mut rule = json!({"container": "/a/", "transform": "mask", "permissions": ["token:read"]});
    rule[name] = value;
    json!([rule])
}

/// What is wrong with a name or with rights, and what the answer calls it.
fn invalid_access_policies() -> Vec<(&'static str, Value, &'static str)> {
    let long = "x".repeat(501);
    let id_is = json!([{"attribute": "id", "operator": "equals", "value": "x"}]);
    let mut conditional = rules_with("conditions", id_is.clone())[0].clone();
    conditional["container"] = Value::Null;
    let right = rules_with("priority", json!(1))[0].clone();
    let wrong = rules_with("transform", json!("show"))[0].clone();
    vec![
        ("name", Value::Null, "name"),
        ("name", json!(""), "name"),
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
        ("rules", json!([right, wrong]), "rules[1].transform"),
        ("rules", json!(vec![right.clone(); 65]), "rules"),
        ("rules", rules_with("container", Value::Null), "rules[0].container"),
        ("rules", rules_with("container", json!("/a")), "rules[0].container"),
        ("rules", rules_with("container", json!("")), "rules[0].container"),
        ("rules", rules_with("container", json!(["/a/"])), "rules[0].container"),
        ("rules", rules_with("conditions", id_is), "rules[0].conditions"),
        ("rules", json!([conditional]), "rules[0].conditions"),
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
        ("rules", rules_with("description", json!(long)), "rules[0].description"),
        ("rules", rules_with("description", json!(7)), "rules[0].description"),
    ]
}

#[test]
fn invalid_application_names_the_attribute() {
    let made = create_application(&reader_body("stays"));
    let list =
        || SHARED_SERVER.get_path(&ACME.management, &application_path(&made)).expect_status(200);
    let before = list();
    for (name, value, attribute) in invalid_access_policies() {
        let mut body = reader_body("wrong");
        body[name] = value;
        try_create(&body).expect_invalid(attribute);
        SHARED_SERVER
            .put(&ACME.management, &application_path(&made), &body)
            .expect_invalid(attribute);
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
    // Everything at once.
    let nothing = try_create(&json!({}));
    nothing.expect_invalid("name");
    nothing.expect_invalid("type");
    try_create(&json!([])).expect_problem(400, "object");
    assert_eq!(list(), before);
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
        let plain = json!({"name": "x", "type": kind, "permissions": [permission]});
        try_create(&plain).expect_invalid("permissions");
        let ruled = json!({"name": "x", "type": kind, "rules": rules_with("permissions", json!([permission]))});
        try_create(&ruled).expect_invalid("rules[0].permissions");
    }
}

#[test]
fn update_application_replaces_permissions_and_keeps_the_type() {
    let body = json!({"name": "before", "type": "public", "permissions": ["token:create"]});
    let made = create_application(&body);
    let key = text_field(&made, "key");
    let update = |body: &Value| SHARED_SERVER.put(&ACME.management, &application_path(&made), body);
    let changed = update(&json!({
        "name": "after", "type": "management", "id": "another", "create_key": true,
        "rules": [{"container": "/a/", "transform": "redact", "permissions": ["token:update"]}],
    }))
    .expect_status(200);
    for (name, expected) in [
        ("id", made["id"].clone()),
        ("name", json!("after")),
        ("type", json!("public")),
        ("permissions", json!([])),
        ("created_at", made["created_at"].clone()),
        ("created_by", made["created_by"].clone()),
        ("modified_by", made["created_by"].clone()),
    ] {
        assert_eq!(changed[name], expected, "{name}");
    }
    assert!(changed["modified_at"].is_string());
    assert_eq!(changed["keys"][0]["id"], made["keys"][0]["id"], "its keys stay");
    assert_eq!(
        SHARED_SERVER.get_path(&ACME.management, &application_path(&made)).expect_status(200),
        changed
    );
    SHARED_SERVER
        .create_token(&key, &json!({"type": "token", "data": 1}))
        .expect_problem(403, "token:create");
    update(&json!({"name": "a", "permissions": ["token:read"]})).expect_invalid("permissions");
    update(&json!({"name": "a"})).expect_invalid("permissions");
    update(&body).expect_status(200);
    SHARED_SERVER.create_token(&key, &json!({"type": "token", "data": 1})).expect_status(201);
}

#[test]
fn changed_rule_applies_to_the_next_request() {
    let body = |transform: &str, container: &str| {
        let rule =
            json!({"container": container, "transform": transform, "permissions": ["token:read"]});
        json!({"name": "x", "type": "private", "rules": [rule]})
    };
    let made = create_application(&body("mask", "/"));
    let key = text_field(&made, "key");
    let token =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": ["/seen/"]});
    let id = text_field(&SHARED_SERVER.create_token_ok(&ACME.private, &token), "id");
    let shown = |transform, container| {
        SHARED_SERVER
            .put(&ACME.management, &application_path(&made), &body(transform, container))
            .expect_status(200);
        SHARED_SERVER.get_token(&key, &id)
    };
    assert_eq!(SHARED_SERVER.get_token(&key, &id).expect_status(200)["data"], "XXX-XX-6789");
    assert_eq!(shown("reveal", "/seen/").expect_status(200)["data"], "123-45-6789");
    assert!(shown("redact", "/").expect_status(200).get("data").is_none());
    shown("reveal", "/unseen/").expect_problem(403, "token:read");
}

#[test]
fn application_can_remove_its_own_permissions_and_delete_itself() {
    let all = json!(["application:read", "application:update", "application:delete"]);
    let made =
        create_application(&json!({"name": "leaves", "type": "management", "permissions": all}));
    let (key, at) = (text_field(&made, "key"), application_path(&made));
    let fewer = json!({"name": "x", "permissions": ["application:delete"]});
    SHARED_SERVER.put(&key, &at, &fewer).expect_status(200);
    SHARED_SERVER.put(&key, &at, &fewer).expect_problem(403, "application:update");
    assert_eq!(SHARED_SERVER.delete(&key, &at).status, 204);
    SHARED_SERVER.delete(&key, &at).expect_problem(401, "BT-API-KEY");
}

#[test]
fn deleted_application_and_its_keys_are_gone() {
    let (made, other) =
        (create_application(&reader_body("deleted")), create_application(&reader_body("stays")));
    let second = SHARED_SERVER
        .request("POST", &format!("{}/keys", application_path(&made)))
        .key(&ACME.management)
        .send();
    let keys = [text_field(&made, "key"), text_field(&second.expect_status(201), "key")];
    let deleted = SHARED_SERVER.delete(&ACME.management, &application_path(&made));
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    for key in &keys {
        SHARED_SERVER.get_token(key, "whatever").expect_problem(401, "BT-API-KEY");
    }
    SHARED_SERVER
        .get_path(&ACME.management, &application_path(&made))
        .expect_problem(404, "no such thing");
    SHARED_SERVER
        .delete(&ACME.management, &application_path(&made))
        .expect_problem(404, "no such thing");
    SHARED_SERVER
        .put(&ACME.management, &application_path(&made), &reader_body("x"))
        .expect_problem(404, "no such thing");
    SHARED_SERVER
        .get_path(&ACME.management, &format!("{}/keys", application_path(&made)))
        .expect_problem(404, "no such thing");
    let listed = SHARED_SERVER
        .get_path(&ACME.management, &format!("/applications?id={}", text_field(&made, "id")));
    assert_eq!(listed.expect_status(200)["data"], json!([]));
    SHARED_SERVER
        .get_token(&text_field(&other, "key"), "whatever")
        .expect_problem(404, "no such thing");
}

#[test]
fn unknown_and_foreign_applications_are_indistinguishable() {
    let elsewhere = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let foreign = SHARED_SERVER
        .post(&elsewhere.management, "/applications", &reader_body("foreign"))
        .expect_status(201);
    let foreign_key = text_field(&foreign["keys"][0], "id");
    let own = create_application(&reader_body("own"));
    let unknown = Uuid::new_v4().to_string();
    let foreign = text_field(&foreign, "id");
    let ids = [unknown.as_str(), &foreign, "abc", "%FF%FE", "a%20b", "00000000"];
    let mut bodies = Vec::new();
    for id in ids {
        let path = format!("/applications/{id}");
        let (keys, key) = (format!("{path}/keys"), format!("{path}/keys/{foreign_key}"));
        let key_of_own = format!("{}/keys/{id}", application_path(&own));
        bodies.extend([
            SHARED_SERVER.get_path(&ACME.management, &path),
            SHARED_SERVER.put(&ACME.management, &path, &reader_body("x")),
            SHARED_SERVER.delete(&ACME.management, &path),
            SHARED_SERVER.get_path(&ACME.management, &keys),
            SHARED_SERVER.request("POST", &keys).key(&ACME.management).send(),
            SHARED_SERVER.get_path(&ACME.management, &key),
            SHARED_SERVER.delete(&ACME.management, &key),
            SHARED_SERVER.get_path(&ACME.management, &key_of_own),
            SHARED_SERVER.delete(&ACME.management, &key_of_own),
        ]);
    }
    let first = bodies[0].without_trace();
    for reply in &bodies {
        reply.expect_problem(404, "no such thing");
        assert_eq!(reply.without_trace(), first);
    }
    SHARED_SERVER
        .get_path(&elsewhere.management, &format!("/applications/{foreign}"))
        .expect_status(200);
}

#[test]
fn get_application_by_key_returns_the_application_of_the_key() {
    for (key, kind) in
        [(&ACME.private, "private"), (&ACME.public, "public"), (&ACME.management, "management")]
    {
        let found = SHARED_SERVER.get_path(key, "/applications/key/").expect_status(200);
        assert_eq!(found["type"], kind);
        assert_eq!(
            SHARED_SERVER.get_path(&ACME.management, &application_path(&found)).expect_status(200),
            found
        );
    }
    let made = create_application(&reader_body("asks"));
    let key = text_field(&made, "key");
    assert_eq!(
        SHARED_SERVER.get_path(&key, "/applications/key").expect_status(200)["id"],
        made["id"]
    );
    SHARED_SERVER.get_path(&key, &application_path(&made)).expect_problem(403, "application:read");
    // A session is asked about the application that began it.
    let session =
        SHARED_SERVER.request("POST", "/sessions").key(&ACME.public).send().expect_status(201);
    let found = SHARED_SERVER
        .get_path(&text_field(&session, "session_key"), "/applications/key")
        .expect_status(200);
    assert_eq!(found["type"], "public");
    assert!(
        SHARED_SERVER.request("PUT", "/applications/key").key(&ACME.management).send().status
            == 405
    );
}

#[test]
fn regenerate_application_key_is_410() {
    let made = create_application(&reader_body("old"));
    for path in [application_path(&made), "/applications/abc".to_owned()] {
        for key in [&ACME.management, &text_field(&made, "key")] {
            let path = format!("{path}/regenerate");
            SHARED_SERVER
                .request("POST", &path)
                .key(key)
                .send()
                .expect_problem(410, "create another key");
        }
    }
    SHARED_SERVER.get_path(&text_field(&made, "key"), "/applications/key").expect_status(200);
}
