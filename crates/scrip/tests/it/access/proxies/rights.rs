//! The rights of a change: who redirects a live proxy reads every card that is sent through it.

use scrip_core::types::{
    ApplicationKind::Management,
    Permission::{ApplicationUpdate, ProxyCreate, ProxyRead, ProxyUpdate},
};
use serde_json::json;

use super::{
    CERTIFICATE, certificate_body, certificate_pem, create_proxy, get_proxy, patch_proxy,
    proxy_body, proxy_path,
};
use crate::harness::{
    entities::CreatedApplication,
    server::{ACME, SERVER, text_field},
};

const DENIAL: &str = "application:update";

fn create_application(kind: &str, permission: &str) -> CreatedApplication {
    SERVER.create_application(&ACME.management, kind, &json!({"permissions": [permission]}))
}

#[test]
fn naming_an_application_needs_application_update() {
    let creator = SERVER.key_with_permissions(&ACME.tenant, Management, &[ProxyCreate]);
    let both = [ProxyCreate, ApplicationUpdate];
    let manager = SERVER.key_with_permissions(&ACME.tenant, Management, &both);
    let plain = proxy_body(&json!({}));
    SERVER.post(&creator, "/proxies", &plain).expect_status(201);
    for (kind, permission) in [("private", "token:create"), ("public", "token:create")] {
        let application = create_application(kind, permission).id;
        let body = proxy_body(&json!({"application": {"id": application}}));
        SERVER.post(&creator, "/proxies", &body).expect_problem(403, DENIAL);
        let created = SERVER.post(&manager, "/proxies", &body).expect_status(201);
        assert_eq!(created["application_id"], application);
    }
    let management = create_application("management", "tenant:read").id;
    let body = proxy_body(&json!({"application": {"id": management}}));
    SERVER.post(&manager, "/proxies", &body).expect_invalid("application.id");
    let other_tenant = SERVER.create_default_tenant();
    let foreign = SERVER.get_path(&other_tenant.private, "/applications/key").expect_status(200);
    let body = proxy_body(&json!({"application": {"id": foreign["id"]}}));
    SERVER.post(&manager, "/proxies", &body).expect_invalid("application.id");
}

#[test]
fn redirecting_a_proxy_needs_application_update() {
    let updater = SERVER.key_with_permissions(&ACME.tenant, Management, &[ProxyUpdate]);
    let both = [ProxyUpdate, ApplicationUpdate];
    let manager = SERVER.key_with_permissions(&ACME.tenant, Management, &both);
    let application = create_application("private", "token:create").id;
    let append = json!([{"type": "append_text", "options": {"value": "x"}}]);
    for change in [
        json!({"destination_url": "https://attacker.example"}),
        json!({"request_transforms": append}),
        json!({"response_transforms": append}),
        json!({"request_transform": {"code": "x"}}),
        json!({"require_auth": false}),
        json!({"ca_pem": certificate_pem()}),
        json!({"tls_min": "1.3"}),
        json!({"configuration": {"api_key": "of the attacker"}}),
        json!({"application": {"id": application}}),
    ] {
        let proxy = create_proxy(&json!({}));
        patch_proxy(&updater, &proxy, &change).expect_problem(403, DENIAL);
        let body = proxy_body(&change);
        SERVER.put(&updater, &proxy_path(&proxy), &body).expect_problem(403, DENIAL);
        assert_eq!(get_proxy(&proxy), proxy, "{change}");
        assert_eq!(patch_proxy(&manager, &proxy, &change).status, 204, "{change}");
        // The reverse change redirects too. Without its application, a proxy collects nothing, and only
        // `application:update` can name one again.
        let reverse = SERVER.put(&updater, &proxy_path(&proxy), &proxy_body(&json!({})));
        reverse.expect_problem(403, DENIAL);
    }
    let proxy = create_proxy(&json!({"application": {"id": application}}));
    let removal = json!({"application": null});
    patch_proxy(&updater, &proxy, &removal).expect_problem(403, DENIAL);
    assert_eq!(get_proxy(&proxy)["application_id"], application);
    assert_eq!(patch_proxy(&manager, &proxy, &removal).status, 204);
    let proxy = create_proxy(&json!({}));
    let path = format!("{}/client-certificate", proxy_path(&proxy));
    SERVER.put(&updater, &path, &CERTIFICATE).expect_problem(403, DENIAL);
    SERVER.put(&manager, &path, &CERTIFICATE).expect_status(200);
    SERVER.delete(&updater, &path).expect_problem(403, DENIAL);
    assert_eq!(SERVER.delete(&manager, &path).status, 204);
}

#[test]
fn proxy_update_alone_changes_the_remaining_attributes() {
    let updater = SERVER.key_with_permissions(&ACME.tenant, Management, &[ProxyUpdate]);
    let application = create_application("private", "token:create");
    let attributes = json!({
                "application": {"id": application.id}, "require_auth": false, "tls_min": "1.3",
        "request_transforms": [{"type": "append_text", "options": {"value": "x"}}],
    });
    let proxy = create_proxy(&attributes);
    let patch = json!({"name": "x", "timeout": 5, "disable_detokenization": true});
    assert_eq!(patch_proxy(&updater, &proxy, &patch).status, 204);
    let mut body = proxy_body(&attributes);
    body["name"] = json!("y");
    // A PUT without the attribute would let the proxy detokenize again.
    SERVER.put(&updater, &proxy_path(&proxy), &body).expect_problem(403, DENIAL);
    body["disable_detokenization"] = json!(true);
    let both = [ProxyUpdate, ProxyRead];
    let reader = SERVER.key_with_permissions(&ACME.tenant, Management, &both);
    SERVER.put(&reader, &proxy_path(&proxy), &body).expect_status(200);
    // The application was deleted: the proxy stays changeable, and its rights are gone.
    assert_eq!(SERVER.delete(&ACME.management, &application.path).status, 204);
    assert_eq!(patch_proxy(&updater, &proxy, &json!({"name": "z"})).status, 204);
    assert_eq!(get_proxy(&proxy)["application_id"], application.id);
}

/// The response would tell whether the values are equal to those that the caller cannot read.
#[test]
fn request_with_hidden_attributes_needs_application_update_without_proxy_read() {
    let updater = SERVER.key_with_permissions(&ACME.tenant, Management, &[ProxyUpdate]);
    let both = [ProxyUpdate, ProxyRead];
    let reader = SERVER.key_with_permissions(&ACME.tenant, Management, &both);
    let append = |value: &str| json!({"type": "append_text", "options": {"value": value}});
    let other_certificate = certificate_body("other.example")["certificate_pem"].take();
    let rows = [
        ("configuration", json!({"pin": "1234"}), json!({"pin": "4321"})),
        ("request_transforms", json!([append("key=1")]), json!([append("key=2")])),
        ("response_transforms", json!([append("key=1")]), json!([append("key=2")])),
        ("request_transform", append("key=1"), json!({"options": {"value": "key=2"}})),
        ("response_transform", append("key=1"), json!({"options": {"value": "key=2"}})),
        ("ca_pem", json!(certificate_pem()), other_certificate),
    ];
    for (name, equal, other) in rows {
        let [equal, other] = [json!({name: equal}), json!({name: other})];
        let proxy = create_proxy(&equal);
        let path = proxy_path(&proxy);
        for (key, status) in [(&updater, 403), (&reader, 204)] {
            assert_eq!(patch_proxy(key, &proxy, &equal).status, status, "{name}");
        }
        for (key, status) in [(&updater, 403), (&reader, 200)] {
            assert_eq!(SERVER.put(key, &path, &proxy_body(&equal)).status, status, "{name}");
        }
        for key in [&updater, &reader] {
            patch_proxy(key, &proxy, &other).expect_problem(403, DENIAL);
            patch_proxy(key, &proxy, &json!({name: null})).expect_problem(403, DENIAL);
            SERVER.put(key, &path, &proxy_body(&json!({}))).expect_problem(403, DENIAL);
            assert_eq!(patch_proxy(key, &proxy, &json!({"name": "x"})).status, 204, "{name}");
        }
        assert_eq!(get_proxy(&proxy)[name], equal[name]);
    }
}

/// Whether the merged transform is valid depends on the stored one.
#[test]
fn patch_of_a_transform_is_denied_before_it_is_merged() {
    let updater = SERVER.key_with_permissions(&ACME.tenant, Management, &[ProxyUpdate]);
    let append = json!({"type": "append_text", "options": {"value": "key=1"}});
    let proxies = [create_proxy(&json!({"request_transform": append})), create_proxy(&json!({}))];
    for patch in [
        json!({"request_transform": {"options": {"value": "key=1"}}}),
        json!({"request_transform": {"type": "mask"}}),
        json!({"request_transform": {"type": 7}}),
    ] {
        for proxy in &proxies {
            patch_proxy(&updater, proxy, &patch).expect_problem(403, DENIAL);
        }
    }
}

#[test]
fn update_returns_the_key_of_a_proxy_only_to_readers_and_without_an_idempotency_key() {
    let updater = SERVER.key_with_permissions(&ACME.tenant, Management, &[ProxyUpdate]);
    let both = [ProxyUpdate, ProxyRead];
    let reader = SERVER.key_with_permissions(&ACME.tenant, Management, &both);
    let proxy = create_proxy(&json!({}));
    let put = |key: &str, idempotency_key: Option<&str>| {
        let request = SERVER.request("PUT", &proxy_path(&proxy)).key(key);
        let request = request.json(&proxy_body(&json!({})));
        let response = match idempotency_key {
            Some(idempotency_key) => request.idempotency_key(idempotency_key).send(),
            None => request.send(),
        };
        response.expect_status(200).get("key").cloned()
    };
    assert_eq!(put(&updater, None), None);
    assert_eq!(put(&reader, None), Some(proxy["key"].clone()));
    for key in [&updater, &updater, &reader, &reader] {
        assert_eq!(put(key, Some(&text_field(&proxy, "id"))), None);
    }
}

#[test]
fn proxies_per_tenant_are_limited() {
    let keys = SERVER.create_default_tenant();
    let large = json!({"code": "x".repeat(50_000)});
    let body = proxy_body(&json!({"request_transform": large, "response_transform": large}));
    let statuses: Vec<_> = (0..100)
        .map(|_| SERVER.post(&keys.management, "/proxies", &body).status)
        .take_while(|it| *it == 201)
        .collect();
    assert!((60..90).contains(&statuses.len()), "{} proxies of 100 KB", statuses.len());
    SERVER.post(&keys.management, "/proxies", &body).expect_problem(422, "8 MiB");
}
