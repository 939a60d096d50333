//! `/keys`: create, list, get and delete.

use scrip_core::types::time::Clock;
use serde_json::json;

use super::{create_keys, delete_client_key};
use crate::harness::server::{SERVER, text_field};

#[test]
fn created_key_has_its_public_key_as_pem() {
    let keys = create_keys();
    let created = SERVER.create_client_key(&keys.management);
    let names: Vec<_> = created.as_object().unwrap().keys().collect();
    assert_eq!(names, ["expires_at", "key_id", "public_key_pem"]);
    let pem = text_field(&created, "public_key_pem");
    let lines: Vec<_> = pem.lines().collect();
    assert_eq!((lines[0], lines[2]), ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"));
    assert_eq!((lines.len(), lines[1].len()), (3, 44));
}

#[test]
fn body_of_a_create_is_optional_and_expiry_is_limited_to_one_year() {
    let keys = create_keys();
    let request = || SERVER.request("POST", "/keys").key(&keys.management);
    request().send().expect_status(201);
    // The form of the official Python client.
    request().body("application/json-patch+json", "{}").send().expect_status(201);
    request().json(&json!({"expires_at": null})).send().expect_status(201);
    assert_eq!(request().body("text/plain", "{}").send().status, 415);
    request().body("application/json", "{").send().expect_status(400);
    for invalid in [json!("tomorrow"), json!(7), json!("2020-01-01T00:00:00Z")] {
        request().json(&json!({"expires_at": invalid})).send().expect_invalid("expires_at");
    }
    // Two years is more than a year, in every form of a date.
    for invalid in ["2098-08-26T00:00:00Z", "8/26/2098 7:23:57 PM -07:00"] {
        request().json(&json!({"expires_at": invalid})).send().expect_invalid("expires_at");
    }
}

#[test]
fn expiry_is_accepted_in_the_form_of_other_clients() {
    let keys = create_keys();
    let now = SERVER.clock.now();
    // Half a year from now, in the form M/D/YYYY h:mm:ss PM -07:00.
    let later = now.plus(std::time::Duration::from_secs(180 * 24 * 60 * 60)).to_string();
    let parts: Vec<_> = later.split(['-', 'T']).collect();
    let (year, month, day) = (parts[0], parts[1].trim_start_matches('0'), parts[2]);
    let day = day.trim_start_matches('0');
    let body = json!({"expires_at": format!("{month}/{day}/{year} 1:00:00 PM -07:00")});
    let created = SERVER.post(&keys.management, "/keys", &body).expect_status(201);
    let expected = format!("{}-{}-{}T20:00:00+00:00", parts[0], parts[1], parts[2]);
    assert_eq!(created["expires_at"], expected);
}

#[test]
fn every_application_of_the_tenant_gets_the_public_key_of_a_live_key() {
    let (keys, other) = (create_keys(), create_keys());
    let created = SERVER.create_client_key(&keys.management);
    let path = format!("/keys/{}/public-key", text_field(&created, "key_id"));
    for key in [&keys.public, &keys.private, &keys.management] {
        let found = SERVER.get_path(key, &path).expect_status(200);
        assert_eq!(found["public_key_pem"], created["public_key_pem"]);
    }
    SERVER.get_path(&other.public, &path).expect_problem(404, "Not found.");
    SERVER.request("GET", &path).send().expect_problem(401, "BT-API-KEY");
    delete_client_key(&keys, &created);
    SERVER.get_path(&keys.public, &path).expect_problem(404, "Not found.");
}
