//! API keys: an application can have several, each is returned once, and a deleted key stops
//! working immediately.

use std::time::Duration;

use scrip_core::policy::TenantSettings;
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED_SERVER, TestResponse, TestServer, text_field};

/// Creates an application and returns the path of its keys and its first key.
fn create_application() -> (String, Value) {
    let body = json!({"name": "keys", "type": "private", "permissions": ["token:read"]});
    let created = SHARED_SERVER.post(&ACME.management, "/applications", &body).expect_status(201);
    (format!("/applications/{}/keys", text_field(&created, "id")), created["keys"][0].clone())
}

fn create_key(path: &str) -> TestResponse {
    SHARED_SERVER.request("POST", path).key(&ACME.management).send()
}

fn works(key: &Value) -> bool {
    let status = SHARED_SERVER.get_token(&text_field(key, "key"), "no-such-token").status;
    assert!([401, 404].contains(&status), "{status}");
    status == 404
}

fn without_key(mut key: Value) -> Value {
    assert!(key.as_object_mut().unwrap().remove("key").is_some());
    key
}

#[test]
fn application_can_have_several_keys_and_each_is_returned_once() {
    let (path, first) = create_application();
    let second = create_key(&path).expect_status(201);
    let third = create_key(&path).expect_status(201);
    let created_keys = [first, second, third];
    for key in &created_keys {
        assert!(works(key), "a new key does not work immediately");
        assert!(text_field(key, "key").starts_with("key_test_us_pvt_"));
        let manager =
            SHARED_SERVER.get_path(&ACME.management, "/applications/key").expect_status(200);
        assert_eq!(key["created_by"], manager["id"]);
        assert!(key["created_at"].is_string());
    }
    assert_ne!(created_keys[1]["key"], created_keys[2]["key"]);
    let expected_keys = created_keys.clone().map(without_key);
    let list_response = SHARED_SERVER.get_path(&ACME.management, &path);
    assert!(!list_response.text.contains("key_test_"), "{}", list_response.text);
    let listed_keys = list_response.expect_status(200);
    assert_eq!(listed_keys.as_array().unwrap().len(), 3);
    for key in &expected_keys {
        assert!(listed_keys.as_array().unwrap().contains(key));
        let path = format!("{path}/{}/", text_field(key, "id"));
        assert_eq!(SHARED_SERVER.get_path(&ACME.management, &path).expect_status(200), *key);
    }
}

#[test]
fn key_list_is_an_array_or_a_page_on_request() {
    let (path, _) = create_application();
    let ids: Vec<_> =
        (0..3).map(|_| text_field(&create_key(&path).expect_status(201), "id")).collect();
    let list_keys =
        |query: &str| SHARED_SERVER.get_path(&ACME.management, &format!("{path}{query}"));
    let page = list_keys("?page=2&size=3").expect_status(200);
    let pagination = json!({"total_items": 4, "page_number": 2, "page_size": 3, "total_pages": 2});
    assert_eq!(page["pagination"], pagination);
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    assert_eq!(list_keys("?size=100").expect_status(200)["data"].as_array().unwrap().len(), 4);
    assert_eq!(list_keys("?page=9").expect_status(200)["data"], json!([]));
    assert_eq!(list_keys("/").expect_status(200).as_array().unwrap().len(), 4);
    list_keys("/?x=1").expect_invalid("x");
    let filtered_keys =
        list_keys(&format!("?id={}&id={}&id=nobodys", ids[0], ids[2])).expect_status(200);
    assert_eq!(filtered_keys.as_array().unwrap().len(), 2);
    assert_eq!(list_keys("?id=nobodys").expect_status(200), json!([]));
    list_keys("?page=0").expect_invalid("page");
    list_keys("?size=101").expect_invalid("size");
    assert!(!list_keys("?page=1").text.contains("key_test_"));
}

#[test]
fn api_keys_are_listed_oldest_first() {
    let server = TestServer::start();
    let keys = server.create_test_tenant(TenantSettings::default());
    let body = json!({"name": "keys", "type": "private", "permissions": ["token:read"]});
    let created = server.post(&keys.management, "/applications", &body).expect_status(201);
    let application = format!("/applications/{}", text_field(&created, "id"));
    let path = format!("{application}/keys");
    let mut ids = vec![text_field(&created["keys"][0], "id")];
    for _ in 0..4 {
        server.clock.advance(Duration::from_secs(1));
        ids.push(text_field(
            &server.request("POST", &path).key(&keys.management).send().expect_status(201),
            "id",
        ));
    }
    let found = server.get_path(&keys.management, &application).expect_status(200);
    let listed = server.get_path(&keys.management, &path).expect_status(200);
    for keys in [&found["keys"], &listed] {
        let found: Vec<_> =
            keys.as_array().unwrap().iter().map(|it| text_field(it, "id")).collect();
        assert_eq!(found, ids);
    }
}

#[test]
fn deleted_api_key_is_rejected_immediately() {
    let (path, first) = create_application();
    let second = create_key(&path).expect_status(201);
    let key_path = format!("{path}/{}", text_field(&first, "id"));
    let deleted = SHARED_SERVER.delete(&ACME.management, &key_path);
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    assert!(!works(&first) && works(&second));
    SHARED_SERVER.get_path(&ACME.management, &key_path).expect_problem(404, "Not found.");
    SHARED_SERVER.delete(&ACME.management, &key_path).expect_problem(404, "Not found.");
    assert_eq!(
        SHARED_SERVER
            .get_path(&ACME.management, &path)
            .expect_status(200)
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // The application exists without a key, and can get another one.
    SHARED_SERVER
        .delete(&ACME.management, &format!("{path}/{}", text_field(&second, "id")))
        .expect_status(204);
    assert_eq!(SHARED_SERVER.get_path(&ACME.management, &path).expect_status(200), json!([]));
    assert!(works(&create_key(&path).expect_status(201)));
}

#[test]
fn api_key_is_found_only_under_its_own_application() {
    let (path, _) = create_application();
    let (_, other_key) = create_application();
    let key_path = format!("{path}/{}", text_field(&other_key, "id"));
    SHARED_SERVER.get_path(&ACME.management, &key_path).expect_problem(404, "Not found.");
    SHARED_SERVER.delete(&ACME.management, &key_path).expect_problem(404, "Not found.");
    assert!(works(&other_key));
    let other_tenant_keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    SHARED_SERVER
        .request("POST", &path)
        .key(&other_tenant_keys.management)
        .send()
        .expect_problem(404, "Not found.");
    SHARED_SERVER.get_path(&other_tenant_keys.management, &path).expect_problem(404, "Not found.");
}

#[test]
fn create_api_key_ignores_the_body() {
    let (path, _) = create_application();
    let request = || SHARED_SERVER.request("POST", &path).key(&ACME.management);
    request().send().expect_status(201);
    request().json(&json!({})).send().expect_status(201);
    request().body("application/json", "").send().expect_status(201);
    request().body("text/plain", "not JSON").send().expect_status(201);
}

fn management_key(permissions: &[&str]) -> String {
    let body = json!({"name": "m", "type": "management", "permissions": permissions});
    text_field(
        &SHARED_SERVER.post(&ACME.management, "/applications", &body).expect_status(201),
        "key",
    )
}

#[test]
fn each_key_operation_requires_its_own_permission() {
    let (path, first) = create_application();
    let key_path = format!("{path}/{}", text_field(&first, "id"));
    let (reader_key, creator_key, deleter_key) = (
        management_key(&["application:read"]),
        management_key(&["application:create"]),
        management_key(&["application:delete"]),
    );
    SHARED_SERVER
        .request("POST", &path)
        .key(&reader_key)
        .send()
        .expect_problem(403, "application:create");
    SHARED_SERVER.delete(&reader_key, &key_path).expect_problem(403, "application:delete");
    SHARED_SERVER.get_path(&creator_key, &path).expect_problem(403, "application:read");
    SHARED_SERVER.get_path(&deleter_key, &key_path).expect_problem(403, "application:read");
    SHARED_SERVER.get_path(&reader_key, &key_path).expect_status(200);
    SHARED_SERVER.request("POST", &path).key(&creator_key).send().expect_status(201);
    SHARED_SERVER.delete(&deleter_key, &key_path).expect_status(204);
}

#[test]
fn client_encryption_key_permissions_allow_no_api_key_operation() {
    let (path, first) = create_application();
    let key_path = format!("{path}/{}", text_field(&first, "id"));
    let key = management_key(&["keys:read", "keys:create", "keys:delete"]);
    SHARED_SERVER.request("POST", &path).key(&key).send().expect_problem(403, "application:create");
    SHARED_SERVER.get_path(&key, &path).expect_problem(403, "application:read");
    SHARED_SERVER.get_path(&key, &key_path).expect_problem(403, "application:read");
    SHARED_SERVER.delete(&key, &key_path).expect_problem(403, "application:delete");
}

#[test]
fn application_can_have_at_most_100_keys() {
    let (path, first) = create_application();
    for _ in 1..100 {
        create_key(&path).expect_status(201);
    }
    create_key(&path).expect_problem(422, "at most 100 keys");
    SHARED_SERVER
        .delete(&ACME.management, &format!("{path}/{}", text_field(&first, "id")))
        .expect_status(204);
    create_key(&path).expect_status(201);
}
