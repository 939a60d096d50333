//! Attackers with a key of the tenant that must not give them a card: a public key, a key that sees
//! masked data, and management keys with a part of the permissions.

use scrip_core::types::{
    ApplicationKind::{Management, Public},
    Permission::{self, ProxyCreate, ProxyDelete, ProxyRead, ProxyUpdate, TokenRead},
    Transform::Mask,
};
use scrip_testing::policy::permissions_for_kind;
use serde_json::{Value, json};

use crate::{
    harness::server::{TestResponse, text_field},
    proxy::harness::{CreatedProxy, PROXY, ProxyRequest, TestCard, proxy_body},
};

/// A card, a live proxy of the tenant, and the destination of the attacker.
struct AttackScene {
    card: TestCard,
    proxy: CreatedProxy,
    honest: scrip_testing::destination::DestinationHost,
    attacker: scrip_testing::destination::DestinationHost,
}

impl AttackScene {
    fn new() -> Self {
        let honest = PROXY.destinations.host(&[]);
        let attacker = PROXY.destinations.host(&[]);
        let configuration = json!({"secret": "configured-secret"});
        let proxy = PROXY.create_proxy_to(&honest, json!({"configuration": configuration}));
        Self { card: PROXY.create_card(), proxy, honest, attacker }
    }

    /// Tries to send the card to the destination of the attacker and to the honest destination.
    #[track_caller]
    fn expect_no_card(&self, api_key: &str) {
        let body = json!([self.card.number_expression(), self.card.cvc_expression()]);
        let base = || PROXY.request("POST", "").api_key(api_key).json(&body);
        let attempts: [ProxyRequest; 3] = [
            base().url(&self.attacker.url("")),
            base().proxy_key(&self.proxy.key),
            base().proxy_key(&self.proxy.key).url(&self.attacker.url("")),
        ];
        for request in attempts {
            let response = request.send();
            response.expect_not_sent(403);
            self.expect_nothing_in(&response.text());
        }
        assert_eq!((self.attacker.request_count(), self.honest.request_count()), (0, 0));
    }

    #[track_caller]
    fn expect_nothing_in(&self, text: &str) {
        assert!(!text.contains(&self.card.number), "{text}");
        assert!(!text.contains("configured-secret"), "{text}");
    }

    /// The proxy still sends its requests to the honest destination.
    #[track_caller]
    fn expect_unchanged_proxy(&self) {
        let before = self.honest.request_count();
        PROXY.post_to(&self.proxy).json(&json!({})).send().expect_answer(200);
        assert_eq!(self.honest.request_count(), before + 1);
        assert_eq!(self.attacker.request_count(), 0);
    }
}

fn management_key(permissions: &[Permission]) -> String {
    PROXY.server.key_with_permissions(&PROXY.keys.tenant, Management, permissions)
}

#[track_caller]
fn expect_denied(response: &TestResponse, permission: &str) {
    response.expect_problem(403, permission);
}

#[test]
fn public_key_cannot_use_a_card() {
    let scene = AttackScene::new();
    scene.expect_no_card(&PROXY.keys.public);
    let public = PROXY.server.key_with_permissions(
        &PROXY.keys.tenant,
        Public,
        &permissions_for_kind(Public),
    );
    scene.expect_no_card(&public);
    // Without a token in the body: a public key is no right to send requests from the vault.
    let request = PROXY.post_url_as(&public, &scene.attacker.url(""));
    request.json(&json!({})).send().expect_not_sent(403);
    PROXY.post_as(&public, &scene.proxy).json(&json!({})).send().expect_not_sent(403);
    for path in ["/proxies", &format!("/proxies/{}", scene.proxy.id)] {
        expect_denied(&PROXY.server.get_path(&public, path), "proxy:read");
    }
}

/// The proxy is not a way around the mask of a rule.
#[test]
fn masked_key_cannot_use_a_card() {
    let scene = AttackScene::new();
    let masked = PROXY.key_with_rule("/", Mask, &[TokenRead]);
    let shown = PROXY.server.get_token(&masked, &scene.card.id).expect_status(200);
    assert!(!shown.to_string().contains(&scene.card.number), "the rule masks the card");
    scene.expect_no_card(&masked);
}

#[test]
fn management_key_cannot_use_a_card() {
    let scene = AttackScene::new();
    scene.expect_no_card(&PROXY.keys.management);
}

/// With proxy:create alone, an attacker creates a proxy to his own host. It has no rights, so no
/// card reaches it.
#[test]
fn proxy_create_alone_lends_no_rights() {
    let scene = AttackScene::new();
    let key = management_key(&[ProxyCreate]);
    let created = PROXY.server.post(
        &key,
        "/proxies",
        &proxy_body(&scene.attacker.url(""), json!({"require_auth": false})),
    );
    let created = created.expect_status(201);
    let own_proxy =
        CreatedProxy { id: text_field(&created, "id"), key: text_field(&created, "key") };
    let body = json!([scene.card.number_expression()]);
    // Keyless: the expression arrives as text.
    PROXY.post_keyless(&own_proxy).json(&body).send().expect_answer(200);
    assert_eq!(scene.attacker.last_request().text(), body.to_string());
    // With the only key that the attacker has.
    PROXY.post_as(&key, &own_proxy).json(&body).send().expect_not_sent(403);
    // A proxy that borrows the rights of an application needs the right to change applications.
    let applications = PROXY.server.get_path(&PROXY.keys.management, "/applications");
    let application = applications.expect_status(200)["data"][0]["id"].clone();
    let lending = json!({"require_auth": false, "application": {"id": application}});
    let response =
        PROXY.server.post(&key, "/proxies", &proxy_body(&scene.attacker.url(""), lending));
    expect_denied(&response, "application:update");
    for path in ["/proxies", &format!("/proxies/{}", scene.proxy.id)] {
        expect_denied(&PROXY.server.get_path(&key, path), "proxy:read");
    }
    assert!(!scene.attacker.last_request().text().contains(&scene.card.number));
    scene.expect_nothing_in(&created.to_string());
}

/// A caller that changes the destination of a live proxy reads every card that is sent through it.
#[test]
fn proxy_update_alone_cannot_redirect_a_live_proxy() {
    let scene = AttackScene::new();
    let key = management_key(&[ProxyUpdate, ProxyRead, ProxyDelete, ProxyCreate]);
    let path = format!("/proxies/{}", scene.proxy.id);
    let applications = PROXY.server.get_path(&PROXY.keys.management, "/applications");
    let application = applications.expect_status(200)["data"][0]["id"].clone();
    let mask =
        json!([{"type": "mask", "matcher": "regex", "expression": "(a)", "replacement": "*"}]);
    let changes: [Value; 8] = [
        json!({"destination_url": scene.attacker.url("")}),
        json!({"request_transforms": mask}),
        json!({"response_transforms": mask}),
        json!({"require_auth": false}),
        json!({"ca_pem": PROXY.destinations.authority.unknown_root_pem()}),
        json!({"tls_min": "1.3"}),
        json!({"application": {"id": application}}),
        json!({"destination_url": scene.attacker.url(""), "name": "a provider"}),
    ];
    for change in changes {
        let request = PROXY.server.request("PATCH", &path).key(&key);
        expect_denied(&request.merge_patch(&change).send(), "application:update");
        let body = proxy_body(&scene.honest.url(""), change.clone());
        expect_denied(&PROXY.server.put(&key, &path, &body), "application:update");
    }
    let certificate = PROXY.destinations.authority.issue_client_certificate("attacker");
    let body = json!({
        "certificate_pem": certificate.certificate, "private_key_pem": certificate.key,
    });
    let response = PROXY.server.put(&key, &format!("{path}/client-certificate"), &body);
    expect_denied(&response, "application:update");
    scene.expect_unchanged_proxy();
    // A harmless change is allowed.
    let request = PROXY.server.request("PATCH", &path).key(&key);
    assert_eq!(request.merge_patch(&json!({"name": "renamed"})).send().status, 204);
    scene.expect_unchanged_proxy();
}

/// Who lets a proxy detokenize sends cards to a destination that was to receive none.
#[test]
fn proxy_update_alone_cannot_switch_detokenization_on() {
    let honest = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&honest, json!({}));
    let path = format!("/proxies/{}", proxy.id);
    let key = management_key(&[ProxyUpdate]);
    let change = |key: &str, is_disabled: bool| {
        let request = PROXY.server.request("PATCH", &path).key(key);
        request.merge_patch(&json!({"disable_detokenization": is_disabled})).send()
    };
    assert_eq!(change(&key, true).status, 204, "to send less data needs no other right");
    expect_denied(&change(&key, false), "application:update");
    assert_eq!(change(&key, true).status, 204);
    let body = proxy_body(&honest.url(""), json!({"disable_detokenization": false}));
    expect_denied(&PROXY.server.put(&key, &path, &body), "application:update");
    assert_eq!(change(&PROXY.keys.management, false).status, 204);
}

/// Without proxy:update, the other permissions together change nothing.
#[test]
fn application_update_alone_cannot_change_a_proxy() {
    let scene = AttackScene::new();
    let mut permissions = permissions_for_kind(Management);
    permissions.retain(|it| *it != ProxyUpdate);
    let key = management_key(&permissions);
    let path = format!("/proxies/{}", scene.proxy.id);
    let change = json!({"destination_url": scene.attacker.url("")});
    let request = PROXY.server.request("PATCH", &path).key(&key);
    expect_denied(&request.merge_patch(&change).send(), "proxy:update");
    scene.expect_unchanged_proxy();
}

#[test]
fn key_of_another_tenant_uses_neither_card_nor_proxy() {
    let scene = AttackScene::new();
    let other = PROXY.server.create_default_tenant();
    let body = json!([scene.card.number_expression()]);
    let base = || PROXY.request("POST", "").api_key(&other.private).json(&body);
    base().url(&scene.attacker.url("")).send().expect_not_sent(400);
    base().proxy_key(&scene.proxy.key).send().expect_not_sent(404);
    let own_proxy = PROXY.create_proxy_of(&other, &scene.attacker.url(""), json!({}));
    base().proxy_key(&own_proxy.key).send().expect_not_sent(400);
    let path = format!("/proxies/{}", scene.proxy.id);
    let change = json!({"destination_url": scene.attacker.url("")});
    let request = PROXY.server.request("PATCH", &path).key(&other.management);
    assert_eq!(request.merge_patch(&change).send().status, 404);
    assert_eq!(PROXY.server.delete(&other.management, &path).status, 404);
    assert_eq!((scene.attacker.request_count(), scene.honest.request_count()), (0, 0));
    scene.expect_unchanged_proxy();
}

/// Only proxy:read shows the configuration of a live proxy; its private key is never shown.
#[test]
fn client_key_is_never_returned() {
    let scene = AttackScene::new();
    let certificate = PROXY.destinations.authority.issue_client_certificate("shop");
    let body = json!({
        "certificate_pem": certificate.certificate, "private_key_pem": certificate.key,
    });
    let path = format!("/proxies/{}", scene.proxy.id);
    let certificate_path = format!("{path}/client-certificate");
    let responses = [
        PROXY.server.put(&PROXY.keys.management, &certificate_path, &body),
        PROXY.server.get_path(&PROXY.keys.management, &path),
        PROXY.server.get_path(&PROXY.keys.management, "/proxies"),
        PROXY.server.get_path(&PROXY.keys.management, "/logs"),
    ];
    let key_line = certificate.key.lines().nth(1).unwrap();
    for response in responses {
        assert_eq!(response.status, 200, "{}", response.text);
        assert!(!response.text.contains("PRIVATE KEY"), "{}", response.text);
        assert!(!response.text.contains(key_line), "{}", response.text);
    }
}
