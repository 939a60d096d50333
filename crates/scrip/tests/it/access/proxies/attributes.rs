//! The attributes of a proxy: created, read, replaced and patched.

use scrip_testing::requests::assert_members;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    certificate_pem, create_proxy, get_proxy, patch_proxy, proxy_body, proxy_path, try_create,
};
use crate::harness::server::{ACME, SERVER, text_field, text_fields};

fn complete_attributes() -> Value {
    json!({
        "request_transforms": [
            {"type": "tokenize", "options": {"identifier": "a", "token": {"type": "card", "data": "{{ req }}"}}},
            {"type": "append_json", "options": {"location": "$.id", "value": "{{ transform_identifier: 'a' | json: '$.id' }}"}},
            {"type": "append_header", "options": {"location": "X-Token", "value": "x"}},
        ],
        "response_transform": {"type": "mask", "matcher": "regex", "expression": "(\\d+)", "replacement": "*"},
        "configuration": {"secret": "s3cr3t", "login": "shop"},
        "require_auth": false, "disable_detokenization": true, "timeout": 60,
        "ca_pem": certificate_pem(), "tls_min": "1.3",
    })
}

#[test]
fn created_proxy_has_all_attributes_and_a_key() {
    let proxy = create_proxy(&complete_attributes());
    assert_members(&proxy, &complete_attributes());
    let defaults = json!({"destination_url": "https://psp.example/v1", "state": "active"});
    assert_members(&proxy, &defaults);
    let absent = ["request_transform", "response_transforms", "application_id", "proxy_host"];
    for name in absent.into_iter().chain(["client_certificate"]) {
        assert_eq!(proxy.get(name), None, "{name}");
    }
    let key = text_field(&proxy, "key");
    assert!(key.len() >= 20 && key.bytes().all(|it| it.is_ascii_alphanumeric()), "{key}");
    assert_ne!(key, text_field(&create_proxy(&json!({})), "key"));
}

#[test]
fn proxy_without_optional_attributes_has_defaults() {
    for changes in [json!({}), json!({"response_transforms": []})] {
        let proxy = create_proxy(&changes);
        let defaults =
            json!({"require_auth": true, "disable_detokenization": false, "tls_min": "1.2"});
        assert_members(&proxy, &defaults);
        for name in
            ["request_transforms", "response_transforms", "configuration", "timeout", "ca_pem"]
        {
            assert_eq!(proxy.get(name), None, "{name}");
        }
    }
}

#[test]
fn invalid_proxy_is_rejected_and_its_values_are_not_repeated() {
    let secret = "s3cr3t-7d1f";
    let long_url = format!("https://psp.example/{}", "x".repeat(2048));
    let mask =
        json!({"type": "mask", "matcher": "regex", "expression": secret, "replacement": "*"});
    let append = json!({"type": "append_text", "options": {"value": secret}});
    for (changes, field) in [
        (json!({"name": "x".repeat(201)}), "name"),
        (json!({"destination_url": format!("http://{secret}.example")}), "destination_url"),
        (json!({"destination_url": "https://127.0.0.1/"}), "destination_url"),
        (json!({"destination_url": "https://localhost/"}), "destination_url"),
        (json!({"destination_url": long_url}), "destination_url"),
        (json!({"configuration": {"a": secret, "b": 1}}), "configuration"),
        (json!({"configuration": {"a": secret.repeat(4000)}}), "configuration"),
        (json!({"request_transforms": [mask]}), "request_transforms[0].expression"),
        (json!({"request_transforms": vec![append; 17]}), "request_transforms"),
        (json!({"response_transforms": [{"code": secret}, {"code": "x"}]}), "response_transforms"),
        (json!({"application": {"id": Uuid::new_v4().to_string()}}), "application.id"),
        (json!({"timeout": 61}), "timeout"),
        (json!({"ca_pem": secret}), "ca_pem"),
        (json!({"tls_min": "1.0"}), "tls_min"),
        (json!({"request_reactor_id": secret}), "request_reactor_id"),
    ] {
        let response = try_create(&changes);
        response.expect_invalid(field);
        assert!(!response.text.contains(secret), "{}", response.text);
    }
    let hint = try_create(&json!({"response_reactor_id": "x"})).text;
    assert!(hint.contains("response_transforms"), "{hint}");
}

#[test]
fn put_replaces_all_attributes_and_keeps_the_key() {
    let proxy = create_proxy(&complete_attributes());
    let body = proxy_body(&json!({"name": "Refunds", "request_transform": {"code": "x"}}));
    let updated = SERVER.put(&ACME.management, &proxy_path(&proxy), &body).expect_status(200);
    assert_eq!((&updated["id"], &updated["key"]), (&proxy["id"], &proxy["key"]));
    assert_eq!((&updated["name"], &updated["require_auth"]), (&json!("Refunds"), &json!(true)));
    assert_eq!(updated["request_transform"], json!({"type": "code", "code": "x"}));
    for name in ["request_transforms", "response_transform", "configuration", "timeout", "ca_pem"] {
        assert_eq!(updated.get(name), None, "{name}");
    }
}

#[test]
fn patch_changes_only_given_attributes() {
    let proxy = create_proxy(&complete_attributes());
    let patch = json!({
        "name": "Refunds", "configuration": {"login": null, "password": "p"}, "timeout": null,
        "response_transforms": [{"type": "append_text", "options": {"value": "x"}}],
    });
    patch_proxy(&ACME.management, &proxy, &patch).expect_status(204);
    let patched = get_proxy(&proxy);
    assert_eq!(patched["name"], "Refunds");
    assert_eq!(patched["configuration"], json!({"secret": "s3cr3t", "password": "p"}));
    assert_eq!((patched.get("timeout"), patched.get("response_transform")), (None, None));
    assert_eq!(patched["response_transforms"], patch["response_transforms"]);
    for name in
        ["key", "destination_url", "request_transforms", "require_auth", "ca_pem", "tls_min"]
    {
        assert_eq!(patched[name], proxy[name], "{name}");
    }
    for (patch, field) in [
        (json!({"timeout": 0}), "timeout"),
        (json!({"request_reactor_id": "x"}), "request_reactor_id"),
    ] {
        patch_proxy(&ACME.management, &proxy, &patch).expect_invalid(field);
    }
    assert_eq!(get_proxy(&proxy), patched);
    let request = SERVER.request("PATCH", &proxy_path(&proxy)).key(&ACME.management);
    assert_eq!(request.json(&json!({"name": "x"})).send().status, 415);
}

#[test]
fn proxies_are_filtered_by_name() {
    let keys = SERVER.create_default_tenant();
    let create = |name: &str| {
        let body = proxy_body(&json!({"name": name}));
        SERVER.post(&keys.management, "/proxies", &body).expect_status(201)
    };
    let created = ["Charges live", "Charges test", "Refunds", "Payouts"].map(create);
    let list = |query: &str| SERVER.get_path(&keys.management, &format!("/proxies?{query}"));
    let names = |query: &str| -> Vec<String> {
        let page = list(query).expect_status(200);
        let mut names = text_fields(&page["data"], "name");
        names.sort_unstable();
        names
    };
    assert_eq!(names("name=charges*"), ["Charges live", "Charges test"]);
    assert_eq!(names("name=*s"), ["Payouts", "Refunds"]);
    assert_eq!(names("name=refunds"), ["Refunds"]);
    assert!(names("name=refund").is_empty() && names("name=").is_empty());
    let [first, third] = [0, 2].map(|it: usize| text_field(&created[it], "id"));
    assert_eq!(names(&format!("id={first}&id={third}&name=Ref*")), ["Refunds"]);
    list("name=a&name=b").expect_invalid("name");
}
