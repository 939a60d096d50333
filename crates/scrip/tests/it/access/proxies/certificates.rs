//! The client certificate of a proxy.

use serde_json::{Value, json};

use super::{CERTIFICATE, certificate_body, create_proxy, get_proxy, proxy_body, proxy_path};
use crate::harness::server::{ACME, SERVER, TestResponse};

fn set_certificate(proxy: &Value, body: &Value) -> TestResponse {
    let path = format!("{}/client-certificate", proxy_path(proxy));
    SERVER.put(&ACME.management, &path, body)
}

#[test]
fn client_certificate_is_summarized_and_stays_after_an_update() {
    let proxy = create_proxy(&json!({}));
    let summary = set_certificate(&proxy, &CERTIFICATE).expect_status(200);
    let names: Vec<_> = summary.as_object().unwrap().keys().collect();
    assert_eq!(names, ["issuer", "not_after", "sha256", "subject"]);
    assert!(summary["subject"].as_str().unwrap().contains("CN=shop.example"), "{summary}");
    assert_eq!(get_proxy(&proxy)["client_certificate"], summary["sha256"]);
    let body = proxy_body(&json!({"name": "changed"}));
    let updated = SERVER.put(&ACME.management, &proxy_path(&proxy), &body);
    assert_eq!(updated.expect_status(200)["client_certificate"], summary["sha256"]);
    let other_summary = set_certificate(&proxy, &certificate_body("other")).expect_status(200);
    assert_ne!(other_summary["sha256"], summary["sha256"]);
}

#[test]
fn deleted_client_certificate_is_gone() {
    let proxy = create_proxy(&json!({}));
    set_certificate(&proxy, &CERTIFICATE).expect_status(200);
    let path = format!("{}/client-certificate", proxy_path(&proxy));
    assert_eq!(SERVER.delete(&ACME.management, &path).status, 204);
    assert_eq!(get_proxy(&proxy).get("client_certificate"), None);
    SERVER.delete(&ACME.management, &path).expect_problem(404, "");
    assert_eq!(get_proxy(&proxy)["name"], "Charges");
}

#[test]
fn certificate_without_its_key_is_rejected() {
    let proxy = create_proxy(&json!({}));
    let other = certificate_body("other");
    for (name, value, field) in [
        ("private_key_pem", other["private_key_pem"].clone(), "private_key_pem"),
        ("private_key_pem", Value::Null, "private_key_pem"),
        ("private_key_pem", CERTIFICATE["certificate_pem"].clone(), "private_key_pem"),
        ("certificate_pem", other["certificate_pem"].clone(), "private_key_pem"),
        ("certificate_pem", CERTIFICATE["private_key_pem"].clone(), "certificate_pem"),
        ("certificate_pem", json!("x"), "certificate_pem"),
    ] {
        let mut body = CERTIFICATE.clone();
        body[name] = value;
        let response = set_certificate(&proxy, &body);
        response.expect_invalid(field);
        assert!(!response.text.contains("BEGIN"), "{}", response.text);
    }
    assert_eq!(get_proxy(&proxy), proxy);
}
