//! Applications: what they are made of, and that a change counts at the next request.

use scrip_core::policy::Settings;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::server::{ACME, Reply, SHARED, text};

fn create(body: &Value) -> Reply {
    SHARED.post(&ACME.management, "/applications", body)
}

fn created(body: &Value) -> Value {
    create(body).is(201)
}

fn reader(name: &str) -> Value {
    json!({"name": name, "type": "private", "permissions": ["token:read"]})
}

fn at(application: &Value) -> String {
    format!("/applications/{}", text(application, "id"))
}

#[test]
fn an_application_and_its_key_which_is_shown_once() {
    let rule = json!({
        "description": "cards", "priority": 3, "container": "/pci/", "transform": "mask",
        "permissions": ["token:create", "token:read"],
    });
    let body =
        json!({"name": "Shop", "type": "private", "permissions": ["token:use"], "rules": [rule]});
    let made = created(&body);
    let myself = SHARED.fetch(&ACME.management, "/applications/key").is(200);
    let key = text(&made, "key");
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
    assert_eq!(SHARED.fetch(&ACME.management, &at(&made)).is(200), later);
    let listed = SHARED.fetch(&ACME.management, &format!("/applications?id={}", text(&made, "id")));
    assert_eq!(listed.is(200)["data"], json!([later]));
    let updated = SHARED.put(&ACME.management, &at(&made), &body);
    let by_key = SHARED.fetch(&key, "/applications/key");
    for reply in [&updated, &by_key] {
        assert_eq!(reply.status, 200, "the key works at once");
        assert!(!reply.text.contains("key_test_"), "{}", reply.text);
    }
}

#[test]
fn with_a_key_unless_told_otherwise() {
    for (create_key, keys) in [(json!(true), 1), (json!(false), 0), (Value::Null, 1)] {
        let mut body = reader("keys");
        body["create_key"] = create_key;
        let made = created(&body);
        assert_eq!(made["keys"].as_array().unwrap().len(), keys);
        assert_eq!(made.get("key").is_some(), keys == 1);
    }
    for (kind, permission, mark) in
        [("public", "token:create", "pub"), ("management", "tenant:read", "mgt")]
    {
        let made = created(&json!({"name": "x", "type": kind, "permissions": [permission]}));
        assert!(text(&made, "key").starts_with(&format!("key_test_us_{mark}_")));
    }
}

#[test]
fn what_is_left_open_and_what_is_passed_over() {
    let name = "é".repeat(200);
    let body = json!({
        "name": format!("  {name} "), "type": "private", "id": "mine", "unknown": 1, "permissions": null,
        "rules": [
            {"container": "/B/", "transform": "redact", "permissions": ["token:read", "token:read"]},
            {"container": "/a/", "transform": "reveal", "permissions": ["token:read"], "priority": 0,
             "conditions": []},
        ],
    });
    let made = created(&body);
    assert_eq!(made["name"], name);
    assert!(Uuid::try_parse(&text(&made, "id")).is_ok());
    assert_eq!(made["permissions"], json!([]));
    let first = json!({"description": "", "priority": 1, "container": "/b/", "transform": "redact", "permissions": ["token:read"]});
    assert_eq!(made["rules"][0], first);
    assert_eq!(made["rules"][1]["container"], "/a/", "as they were written");
}

/// A rule that is right, with one attribute changed.
fn rule(name: &str, value: Value) -> Value {
    let mut rule = json!({"container": "/a/", "transform": "mask", "permissions": ["token:read"]});
    rule[name] = value;
    json!([rule])
}

/// What is wrong with a name or with rights, and what the answer calls it.
fn refused_rights() -> Vec<(&'static str, Value, &'static str)> {
    let long = "x".repeat(501);
    let id_is = json!([{"attribute": "id", "operator": "equals", "value": "x"}]);
    let mut conditional = rule("conditions", id_is.clone())[0].clone();
    conditional["container"] = Value::Null;
    let right = rule("priority", json!(1))[0].clone();
    let wrong = rule("transform", json!("show"))[0].clone();
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
        ("rules", rule("container", Value::Null), "rules[0].container"),
        ("rules", rule("container", json!("/a")), "rules[0].container"),
        ("rules", rule("container", json!("")), "rules[0].container"),
        ("rules", rule("container", json!(["/a/"])), "rules[0].container"),
        ("rules", rule("conditions", id_is), "rules[0].conditions"),
        ("rules", json!([conditional]), "rules[0].conditions"),
        ("rules", rule("transform", Value::Null), "rules[0].transform"),
        ("rules", rule("transform", json!("Reveal")), "rules[0].transform"),
        ("rules", rule("transform", json!(1)), "rules[0].transform"),
        ("rules", rule("priority", json!(-1)), "rules[0].priority"),
        ("rules", rule("priority", json!(1.5)), "rules[0].priority"),
        ("rules", rule("priority", json!("1")), "rules[0].priority"),
        ("rules", rule("permissions", Value::Null), "rules[0].permissions"),
        ("rules", rule("permissions", json!([])), "rules[0].permissions"),
        ("rules", rule("permissions", json!("token:read")), "rules[0].permissions"),
        ("rules", rule("permissions", json!(["x"])), "rules[0].permissions[0]"),
        ("rules", rule("permissions", json!(["log:read"])), "rules[0].permissions"),
        ("rules", rule("description", json!(long)), "rules[0].description"),
        ("rules", rule("description", json!(7)), "rules[0].description"),
    ]
}

#[test]
fn what_is_wrong_is_named() {
    let made = created(&reader("stays"));
    let list = || SHARED.fetch(&ACME.management, &at(&made)).is(200);
    let before = list();
    for (name, value, attribute) in refused_rights() {
        let mut body = reader("wrong");
        body[name] = value;
        create(&body).invalid(attribute);
        SHARED.put(&ACME.management, &at(&made), &body).invalid(attribute);
    }
    for (name, value) in [
        ("type", json!("robot")),
        ("type", json!("Private")),
        ("type", json!(7)),
        ("type", Value::Null),
        ("create_key", json!("no")),
    ] {
        let mut body = reader("wrong");
        body[name] = value;
        create(&body).invalid(name);
    }
    // Everything at once.
    let nothing = create(&json!({}));
    nothing.invalid("name");
    nothing.invalid("type");
    create(&json!([])).refused(400, "object");
    assert_eq!(list(), before);
}

#[test]
fn each_type_holds_its_own_permissions() {
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
        create(&plain).invalid("permissions");
        let ruled =
            json!({"name": "x", "type": kind, "rules": rule("permissions", json!([permission]))});
        create(&ruled).invalid("rules[0].permissions");
    }
}

#[test]
fn an_update_replaces_rights_and_leaves_the_type() {
    let body = json!({"name": "before", "type": "public", "permissions": ["token:create"]});
    let made = created(&body);
    let key = text(&made, "key");
    let update = |body: &Value| SHARED.put(&ACME.management, &at(&made), body);
    let changed = update(&json!({
        "name": "after", "type": "management", "id": "another", "create_key": true,
        "rules": [{"container": "/a/", "transform": "redact", "permissions": ["token:update"]}],
    }))
    .is(200);
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
    assert_eq!(SHARED.fetch(&ACME.management, &at(&made)).is(200), changed);
    SHARED.create(&key, &json!({"type": "token", "data": 1})).refused(403, "token:create");
    update(&json!({"name": "a", "permissions": ["token:read"]})).invalid("permissions");
    update(&json!({"name": "a"})).invalid("permissions");
    update(&body).is(200);
    SHARED.create(&key, &json!({"type": "token", "data": 1})).is(201);
}

#[test]
fn a_changed_rule_counts_at_the_next_request() {
    let body = |transform: &str, container: &str| {
        let rule =
            json!({"container": container, "transform": transform, "permissions": ["token:read"]});
        json!({"name": "x", "type": "private", "rules": [rule]})
    };
    let made = created(&body("mask", "/"));
    let key = text(&made, "key");
    let token =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": ["/seen/"]});
    let id = text(&SHARED.created(&ACME.private, &token), "id");
    let shown = |transform, container| {
        SHARED.put(&ACME.management, &at(&made), &body(transform, container)).is(200);
        SHARED.get(&key, &id)
    };
    assert_eq!(SHARED.get(&key, &id).is(200)["data"], "XXX-XX-6789");
    assert_eq!(shown("reveal", "/seen/").is(200)["data"], "123-45-6789");
    assert!(shown("redact", "/").is(200).get("data").is_none());
    shown("reveal", "/unseen/").refused(403, "token:read");
}

#[test]
fn an_application_can_give_up_its_own_rights_and_itself() {
    let all = json!(["application:read", "application:update", "application:delete"]);
    let made = created(&json!({"name": "leaves", "type": "management", "permissions": all}));
    let (key, at) = (text(&made, "key"), at(&made));
    let fewer = json!({"name": "x", "permissions": ["application:delete"]});
    SHARED.put(&key, &at, &fewer).is(200);
    SHARED.put(&key, &at, &fewer).refused(403, "application:update");
    assert_eq!(SHARED.remove(&key, &at).status, 204);
    SHARED.remove(&key, &at).refused(401, "BT-API-KEY");
}

#[test]
fn a_deleted_application_is_gone_with_its_keys() {
    let (made, other) = (created(&reader("deleted")), created(&reader("stays")));
    let second = SHARED.ask("POST", &format!("{}/keys", at(&made))).key(&ACME.management).send();
    let keys = [text(&made, "key"), text(&second.is(201), "key")];
    let deleted = SHARED.remove(&ACME.management, &at(&made));
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    for key in &keys {
        SHARED.get(key, "whatever").refused(401, "BT-API-KEY");
    }
    SHARED.fetch(&ACME.management, &at(&made)).refused(404, "no such thing");
    SHARED.remove(&ACME.management, &at(&made)).refused(404, "no such thing");
    SHARED.put(&ACME.management, &at(&made), &reader("x")).refused(404, "no such thing");
    SHARED.fetch(&ACME.management, &format!("{}/keys", at(&made))).refused(404, "no such thing");
    let listed = SHARED.fetch(&ACME.management, &format!("/applications?id={}", text(&made, "id")));
    assert_eq!(listed.is(200)["data"], json!([]));
    SHARED.get(&text(&other, "key"), "whatever").refused(404, "no such thing");
}

#[test]
fn nobodys_applications_are_all_the_same() {
    let elsewhere = SHARED.tenant(Settings::default());
    let foreign = SHARED.post(&elsewhere.management, "/applications", &reader("foreign")).is(201);
    let foreign_key = text(&foreign["keys"][0], "id");
    let own = created(&reader("own"));
    let unknown = Uuid::new_v4().to_string();
    let foreign = text(&foreign, "id");
    let ids = [unknown.as_str(), &foreign, "abc", "%FF%FE", "a%20b", "00000000"];
    let mut bodies = Vec::new();
    for id in ids {
        let path = format!("/applications/{id}");
        let (keys, key) = (format!("{path}/keys"), format!("{path}/keys/{foreign_key}"));
        let key_of_own = format!("{}/keys/{id}", at(&own));
        bodies.extend([
            SHARED.fetch(&ACME.management, &path),
            SHARED.put(&ACME.management, &path, &reader("x")),
            SHARED.remove(&ACME.management, &path),
            SHARED.fetch(&ACME.management, &keys),
            SHARED.ask("POST", &keys).key(&ACME.management).send(),
            SHARED.fetch(&ACME.management, &key),
            SHARED.remove(&ACME.management, &key),
            SHARED.fetch(&ACME.management, &key_of_own),
            SHARED.remove(&ACME.management, &key_of_own),
        ]);
    }
    let first = bodies[0].without_trace();
    for reply in &bodies {
        reply.refused(404, "no such thing");
        assert_eq!(reply.without_trace(), first);
    }
    SHARED.fetch(&elsewhere.management, &format!("/applications/{foreign}")).is(200);
}

#[test]
fn whose_key_is_this() {
    for (key, kind) in
        [(&ACME.private, "private"), (&ACME.public, "public"), (&ACME.management, "management")]
    {
        let found = SHARED.fetch(key, "/applications/key/").is(200);
        assert_eq!(found["type"], kind);
        assert_eq!(SHARED.fetch(&ACME.management, &at(&found)).is(200), found);
    }
    let made = created(&reader("asks"));
    let key = text(&made, "key");
    assert_eq!(SHARED.fetch(&key, "/applications/key").is(200)["id"], made["id"]);
    SHARED.fetch(&key, &at(&made)).refused(403, "application:read");
    // A session is asked about the application that began it.
    let session = SHARED.ask("POST", "/sessions").key(&ACME.public).send().is(201);
    let found = SHARED.fetch(&text(&session, "session_key"), "/applications/key").is(200);
    assert_eq!(found["type"], "public");
    assert!(SHARED.ask("PUT", "/applications/key").key(&ACME.management).send().status == 405);
}

#[test]
fn keys_are_no_longer_regenerated() {
    let made = created(&reader("old"));
    for path in [at(&made), "/applications/abc".to_owned()] {
        for key in [&ACME.management, &text(&made, "key")] {
            let path = format!("{path}/regenerate");
            SHARED.ask("POST", &path).key(key).send().refused(410, "create another key");
        }
    }
    SHARED.fetch(&text(&made, "key"), "/applications/key").is(200);
}
