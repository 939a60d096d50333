//! API keys: several for one application, each shown once and gone when it is deleted.

use std::time::Duration;

use scrip_core::policy::Settings;
use serde_json::{Value, json};

use crate::harness::server::{ACME, Reply, SHARED, Server, text};

/// The path of an application's keys, and its first key.
fn application() -> (String, Value) {
    let body = json!({"name": "keys", "type": "private", "permissions": ["token:read"]});
    let made = SHARED.post(&ACME.management, "/applications", &body).is(201);
    (format!("/applications/{}/keys", text(&made, "id")), made["keys"][0].clone())
}

fn create(path: &str) -> Reply {
    SHARED.ask("POST", path).key(&ACME.management).send()
}

fn works(key: &Value) -> bool {
    let status = SHARED.get(&text(key, "key"), "no-such-token").status;
    assert!([401, 404].contains(&status), "{status}");
    status == 404
}

fn without_key(mut key: Value) -> Value {
    assert!(key.as_object_mut().unwrap().remove("key").is_some());
    key
}

#[test]
fn several_keys_each_shown_once() {
    let (path, first) = application();
    let second = create(&path).is(201);
    let third = create(&path).is(201);
    let all = [first, second, third];
    for key in &all {
        assert!(works(key), "at once");
        assert!(text(key, "key").starts_with("key_test_us_pvt_"));
        let myself = SHARED.fetch(&ACME.management, "/applications/key").is(200);
        assert_eq!(key["created_by"], myself["id"]);
        assert!(key["created_at"].is_string());
    }
    assert_ne!(all[1]["key"], all[2]["key"]);
    let shown = all.clone().map(without_key);
    let listed = SHARED.fetch(&ACME.management, &path);
    assert!(!listed.text.contains("key_test_"), "{}", listed.text);
    let found = listed.is(200);
    assert_eq!(found.as_array().unwrap().len(), 3);
    for key in &shown {
        assert!(found.as_array().unwrap().contains(key));
        let path = format!("{path}/{}/", text(key, "id"));
        assert_eq!(SHARED.fetch(&ACME.management, &path).is(200), *key);
    }
}

#[test]
fn a_list_is_an_array_or_a_page() {
    let (path, _) = application();
    let ids: Vec<_> = (0..3).map(|_| text(&create(&path).is(201), "id")).collect();
    let list = |query: &str| SHARED.fetch(&ACME.management, &format!("{path}{query}"));
    let page = list("?page=2&size=3").is(200);
    let pagination = json!({"total_items": 4, "page_number": 2, "page_size": 3, "total_pages": 2});
    assert_eq!(page["pagination"], pagination);
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    assert_eq!(list("?size=100").is(200)["data"].as_array().unwrap().len(), 4);
    assert_eq!(list("?page=9").is(200)["data"], json!([]));
    assert_eq!(list("/?x=1").is(200).as_array().unwrap().len(), 4);
    let some = list(&format!("?id={}&id={}&id=nobodys", ids[0], ids[2])).is(200);
    assert_eq!(some.as_array().unwrap().len(), 2);
    assert_eq!(list("?id=nobodys").is(200), json!([]));
    list("?page=0").invalid("page");
    list("?size=101").invalid("size");
    assert!(!list("?page=1").text.contains("key_test_"));
}

#[test]
fn the_oldest_first() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let body = json!({"name": "keys", "type": "private", "permissions": ["token:read"]});
    let made = server.post(&keys.management, "/applications", &body).is(201);
    let application = format!("/applications/{}", text(&made, "id"));
    let path = format!("{application}/keys");
    let mut ids = vec![text(&made["keys"][0], "id")];
    for _ in 0..4 {
        server.clock.advance(Duration::from_secs(1));
        ids.push(text(&server.ask("POST", &path).key(&keys.management).send().is(201), "id"));
    }
    let found = server.fetch(&keys.management, &application).is(200);
    let listed = server.fetch(&keys.management, &path).is(200);
    for keys in [&found["keys"], &listed] {
        let found: Vec<_> = keys.as_array().unwrap().iter().map(|it| text(it, "id")).collect();
        assert_eq!(found, ids);
    }
}

#[test]
fn a_deleted_key_is_unknown_at_once() {
    let (path, first) = application();
    let second = create(&path).is(201);
    let at = format!("{path}/{}", text(&first, "id"));
    let deleted = SHARED.remove(&ACME.management, &at);
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    assert!(!works(&first) && works(&second));
    SHARED.fetch(&ACME.management, &at).refused(404, "no such thing");
    SHARED.remove(&ACME.management, &at).refused(404, "no such thing");
    assert_eq!(SHARED.fetch(&ACME.management, &path).is(200).as_array().unwrap().len(), 1);
    // Without its last key the application is still there, and can have another.
    SHARED.remove(&ACME.management, &format!("{path}/{}", text(&second, "id"))).is(204);
    assert_eq!(SHARED.fetch(&ACME.management, &path).is(200), json!([]));
    assert!(works(&create(&path).is(201)));
}

#[test]
fn a_key_is_found_under_its_own_application_only() {
    let (path, _) = application();
    let (_, others) = application();
    let at = format!("{path}/{}", text(&others, "id"));
    SHARED.fetch(&ACME.management, &at).refused(404, "no such thing");
    SHARED.remove(&ACME.management, &at).refused(404, "no such thing");
    assert!(works(&others));
    let elsewhere = SHARED.tenant(Settings::default());
    SHARED.ask("POST", &path).key(&elsewhere.management).send().refused(404, "no such thing");
    SHARED.fetch(&elsewhere.management, &path).refused(404, "no such thing");
}

#[test]
fn whatever_body_comes_is_passed_over() {
    let (path, _) = application();
    let ask = || SHARED.ask("POST", &path).key(&ACME.management);
    ask().send().is(201);
    ask().json(&json!({})).send().is(201);
    ask().text("application/json", "").send().is(201);
    ask().text("text/plain", "not JSON").send().is(201);
}

fn manager(permissions: &[&str]) -> String {
    let body = json!({"name": "m", "type": "management", "permissions": permissions});
    text(&SHARED.post(&ACME.management, "/applications", &body).is(201), "key")
}

#[test]
fn each_right_is_for_its_own_operation() {
    let (path, first) = application();
    let at = format!("{path}/{}", text(&first, "id"));
    let (reads, creates, deletes) = (
        manager(&["application:read"]),
        manager(&["application:create"]),
        manager(&["application:delete"]),
    );
    SHARED.ask("POST", &path).key(&reads).send().refused(403, "application:create");
    SHARED.remove(&reads, &at).refused(403, "application:delete");
    SHARED.fetch(&creates, &path).refused(403, "application:read");
    SHARED.fetch(&deletes, &at).refused(403, "application:read");
    SHARED.fetch(&reads, &at).is(200);
    SHARED.ask("POST", &path).key(&creates).send().is(201);
    SHARED.remove(&deletes, &at).is(204);
}

#[test]
fn client_encryption_key_permissions_open_no_api_key_operation() {
    let (path, first) = application();
    let at = format!("{path}/{}", text(&first, "id"));
    let key = manager(&["keys:read", "keys:create", "keys:delete"]);
    SHARED.ask("POST", &path).key(&key).send().refused(403, "application:create");
    SHARED.fetch(&key, &path).refused(403, "application:read");
    SHARED.fetch(&key, &at).refused(403, "application:read");
    SHARED.remove(&key, &at).refused(403, "application:delete");
}

#[test]
fn a_hundred_are_enough() {
    let (path, first) = application();
    for _ in 1..100 {
        create(&path).is(201);
    }
    create(&path).refused(422, "at most 100 keys");
    SHARED.remove(&ACME.management, &format!("{path}/{}", text(&first, "id"))).is(204);
    create(&path).is(201);
}
