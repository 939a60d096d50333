//! API keys: an application can have several, each is returned once, and a deleted key stops
//! working immediately.

use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestResponse, text_field};

/// Creates an application and returns the path of its keys and its first key.
fn create_application() -> (String, Value) {
    let body = json!({"name": "keys", "type": "private", "permissions": ["token:read"]});
    let created = SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    (format!("/applications/{}/keys", text_field(&created, "id")), created["keys"][0].clone())
}

fn create_key(path: &str) -> TestResponse {
    SERVER.post_empty(&ACME.management, path)
}

fn delete_key(path: &str, key: &Value) {
    let path = format!("{path}/{}", text_field(key, "id"));
    SERVER.delete(&ACME.management, &path).expect_status(204);
}

fn works(key: &Value) -> bool {
    let status = SERVER.get_token(&text_field(key, "key"), "no-such-token").status;
    assert!([401, 404].contains(&status), "{status}");
    status == 404
}

#[test]
fn application_can_have_several_keys() {
    let (path, first) = create_application();
    let second = create_key(&path).expect_status(201);
    let third = create_key(&path).expect_status(201);
    let created_keys = [first, second, third];
    for key in &created_keys {
        assert!(works(key), "a new key does not work immediately");
        assert!(text_field(key, "key").starts_with("key_test_us_pvt_"));
    }
    assert_ne!(created_keys[1]["key"], created_keys[2]["key"]);
    let listed_keys = SERVER.get_path(&ACME.management, &path).expect_status(200);
    assert_eq!(listed_keys.as_array().unwrap().len(), 3);
}

#[test]
fn key_list_is_an_array_or_a_page_on_request() {
    let (path, _) = create_application();
    let id = text_field(&create_key(&path).expect_status(201), "id");
    let list_keys = |query: &str| SERVER.get_path(&ACME.management, &format!("{path}{query}"));
    for query in ["?page=1", "?size=2", "?page=1&size=2"] {
        assert_eq!(list_keys(query).expect_status(200)["data"].as_array().unwrap().len(), 2);
    }
    assert_eq!(list_keys("/").expect_status(200).as_array().unwrap().len(), 2);
    list_keys("/?x=1").expect_invalid("x");
    let filtered_keys = list_keys(&format!("?id={id}&id=nobodys")).expect_status(200);
    assert_eq!(filtered_keys.as_array().unwrap().len(), 1);
}

#[test]
fn deleted_api_key_is_rejected_immediately() {
    let (path, first) = create_application();
    let second = create_key(&path).expect_status(201);
    delete_key(&path, &first);
    assert!(!works(&first) && works(&second));
    // The application exists without a key, and can get another one.
    delete_key(&path, &second);
    assert_eq!(SERVER.get_path(&ACME.management, &path).expect_status(200), json!([]));
    assert!(works(&create_key(&path).expect_status(201)));
}

#[test]
fn create_api_key_ignores_the_body() {
    let (path, _) = create_application();
    let request = || SERVER.request("POST", &path).key(&ACME.management);
    request().send().expect_status(201);
    request().json(&json!({})).send().expect_status(201);
    request().body("application/json", "").send().expect_status(201);
    request().body("text/plain", "not JSON").send().expect_status(201);
}

#[test]
fn application_can_have_at_most_100_keys() {
    let (path, first) = create_application();
    for _ in 1..100 {
        create_key(&path).expect_status(201);
    }
    create_key(&path).expect_problem(422, "at most 100 keys");
    delete_key(&path, &first);
    create_key(&path).expect_status(201);
}
