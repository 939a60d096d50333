//! Rights to use tokens: by container, by kind of proxy, by access session, and without an API key.

use scrip_core::types::{
    ApplicationKind,
    Permission::{self, ProxyInvoke, TokenRead, TokenUse},
    Transform::{Mask, Redact, Reveal},
};
use scrip_testing::destination::behavior::DestinationBehavior;
use serde_json::json;

use crate::{
    harness::server::{TestServer, grant},
    proxy::harness::{CreatedProxy, PROXY, ProxyResponse, TestCard},
};

fn server() -> &'static TestServer {
    &PROXY.server
}

/// Creates a card in these containers.
fn create_card_in(containers: &[&str]) -> TestCard {
    PROXY.create_card_of(&PROXY.keys, json!({"containers": containers}))
}

fn send_ephemeral(key: &str, url: &str, card: &TestCard) -> ProxyResponse {
    PROXY.post_url_as(key, url).json(&json!([card.number_expression()])).send()
}

fn send_configured(key: &str, proxy: &CreatedProxy, card: &TestCard) -> ProxyResponse {
    PROXY.post_as(key, proxy).json(&json!([card.number_expression()])).send()
}

/// Every permission except those that allow the use of a token.
fn permissions_without_use() -> Vec<Permission> {
    let mut permissions = scrip_testing::policy::permissions_for_kind(ApplicationKind::Private);
    permissions.retain(|it| ![TokenUse, ProxyInvoke].contains(it));
    permissions
}

#[test]
fn use_of_a_token_needs_token_use_on_its_containers() {
    let host = PROXY.destinations.host(&[]);
    let card = create_card_in(&["/a/", "/b/"]);
    let key = |rules| server().key_with_rules(&PROXY.keys.tenant, rules);
    let allowed = [
        vec![grant("/", Reveal, &[TokenUse])],
        vec![grant("/a/", Reveal, &[TokenUse]), grant("/b/", Reveal, &[TokenUse])],
    ];
    for rules in allowed {
        send_ephemeral(&key(rules), &host.url(""), &card).expect_answer(200);
    }
    assert_eq!(host.request_count(), 2);
    let denied = [
        vec![grant("/", Reveal, &permissions_without_use())],
        vec![grant("/a/", Reveal, &[TokenUse])],
        vec![grant("/a/", Reveal, &[TokenUse]), grant("/b/", Reveal, &[TokenRead])],
        vec![grant("/a/below/", Reveal, &[TokenUse]), grant("/b/", Reveal, &[TokenUse])],
        vec![grant("/elsewhere/", Reveal, &[TokenUse])],
    ];
    for rules in denied {
        let key = key(rules);
        let response = send_ephemeral(&key, &host.url(""), &card);
        response.expect_not_sent(403);
        assert!(!response.text().contains(&card.number));
    }
    assert_eq!(host.request_count(), 2);
}

#[test]
fn proxy_invoke_is_sufficient_for_pre_configured_proxies_only() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let card = create_card_in(&["/a/"]);
    let rules = vec![grant("/a/", Reveal, &[ProxyInvoke])];
    let key = server().key_with_rules(&PROXY.keys.tenant, rules);
    send_configured(&key, &proxy, &card).expect_answer(200);
    send_ephemeral(&key, &host.url(""), &card).expect_not_sent(403);
    let plain = PROXY.post_url_as(&key, &host.url("")).json(&json!({}));
    plain.send().expect_not_sent(403);
    let with_permission =
        server().key_with_permissions(&PROXY.keys.tenant, ApplicationKind::Private, &[ProxyInvoke]);
    send_configured(&with_permission, &proxy, &card).expect_answer(200);
    let rules = vec![grant("/a/", Reveal, &[TokenUse]), grant("/b/", Reveal, &[ProxyInvoke])];
    let mixed = server().key_with_rules(&PROXY.keys.tenant, rules);
    let both = create_card_in(&["/a/", "/b/"]);
    send_configured(&mixed, &proxy, &both).expect_answer(200);
    send_ephemeral(&mixed, &host.url(""), &both).expect_not_sent(403);
    assert_eq!(host.request_count(), 3);
}

/// The data goes to the destination and not to the caller, so the transform of a rule does not
/// limit it.
#[test]
fn transform_of_a_rule_does_not_apply_to_use() {
    let host = PROXY.destinations.host(&[DestinationBehavior::text(200, "ok")]);
    let card = create_card_in(&["/a/"]);
    for transform in [Mask, Redact] {
        let rules = vec![grant("/a/", transform, &[TokenUse])];
        let key = server().key_with_rules(&PROXY.keys.tenant, rules);
        let response = send_ephemeral(&key, &host.url(""), &card).expect_answer(200);
        assert_eq!(host.last_request().text(), json!([card.number]).to_string());
        assert_eq!(response.text(), "ok");
    }
}

#[test]
fn access_session_uses_only_the_tokens_of_its_conditions() {
    let host = PROXY.destinations.host(&[]);
    let (card, other_card) = (PROXY.create_card(), PROXY.create_card());
    let rules = json!([{"description": "one card", "priority": 1, "transform": "reveal",
        "conditions": [{"attribute": "id", "operator": "equals", "value": card.id}],
        "permissions": ["token:use"]}]);
    let session = PROXY.create_access_session(&json!({"rules": rules}));
    send_ephemeral(&session, &host.url(""), &card).expect_answer(200);
    send_ephemeral(&session, &host.url(""), &other_card).expect_not_sent(403);
    assert_eq!(host.request_count(), 1);
    let reading_session = PROXY.create_access_session(&json!({"permissions": ["token:read"]}));
    send_ephemeral(&reading_session, &host.url(""), &card).expect_not_sent(403);
    assert_eq!(host.request_count(), 1);
}

#[test]
fn proxy_of_another_tenant_is_unknown() {
    let host = PROXY.destinations.host(&[]);
    let other = server().create_default_tenant();
    let foreign_proxy = PROXY.create_proxy_of(&other, &host.url(""), json!({}));
    let unknown = PROXY.post_to(&CreatedProxy { id: String::new(), key: "unknown".to_owned() });
    let unknown = unknown.json(&json!({})).send();
    let foreign = PROXY.post_to(&foreign_proxy).json(&json!({})).send();
    unknown.expect_not_sent(404);
    foreign.expect_not_sent(404);
    assert_eq!(unknown.text(), foreign.text(), "the existence of a proxy is visible");
    assert!(unknown.text().contains("No proxy has the key in BT-PROXY-KEY"), "{}", unknown.text());
    let path = format!("/proxies/{}", foreign_proxy.id);
    assert_eq!(server().get_path(&PROXY.keys.management, &path).status, 404);
    assert_eq!(host.request_count(), 0);
}

#[test]
fn token_of_another_tenant_is_unknown() {
    let host = PROXY.destinations.host(&[]);
    let other = server().create_default_tenant();
    let foreign = PROXY.create_card_of(&other, json!({}));
    let unknown = TestCard { id: uuid::Uuid::new_v4().to_string(), number: foreign.number.clone() };
    let responses = [&foreign, &unknown].map(|card| {
        let response = send_ephemeral(&PROXY.keys.private, &host.url(""), card);
        response.expect_not_sent(400);
        response.text().replace(&card.id, "ID")
    });
    assert_eq!(responses[0], responses[1], "the existence of a token is visible");
    assert_eq!(host.request_count(), 0);
}

#[test]
fn keyless_proxy_never_evaluates_expressions() {
    let host = PROXY.destinations.host(&[]);
    let card = PROXY.create_card();
    let configuration = json!({"secret": "configured-secret"});
    let proxy = PROXY
        .create_proxy_to(&host, json!({"require_auth": false, "configuration": configuration}));
    let body = json!({"a": card.number_expression(), "b": "{{ config: secret }}"}).to_string();
    let request = PROXY.request("POST", "/in").proxy_key(&proxy.key);
    let request = request.header("X-Value", "{{ proxy.config.secret }}");
    request.body("application/json", body.clone()).send().expect_answer(200);
    let received = host.single_request();
    assert_eq!((received.text(), received.target.as_str()), (body.as_str(), "/in"));
    assert_eq!(received.header("x-value"), Some("{{ proxy.config.secret }}"));
    let request = PROXY.request("POST", &format!("/in?bt-proxy-key={}", proxy.key));
    request.body("text/plain", "{{").send().expect_answer(200);
    assert_eq!(host.last_request().target, "/in");
    assert!(!host.last_request().head.windows(12).any(|it| it == b"bt-proxy-key"));
}

/// A caller with an API key has its own rights at the same proxy.
#[test]
fn keyless_proxy_with_an_api_key_uses_the_rights_of_the_caller() {
    let host = PROXY.destinations.host(&[]);
    let card = PROXY.create_card();
    let proxy = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    send_configured(&PROXY.keys.private, &proxy, &card).expect_answer(200);
    assert_eq!(host.last_request().text(), json!([card.number]).to_string());
    let rules = vec![grant("/", Reveal, &permissions_without_use())];
    let key = server().key_with_rules(&PROXY.keys.tenant, rules);
    send_configured(&key, &proxy, &card).expect_not_sent(403);
    // An unknown key is not the absence of a key.
    send_configured("unknown-key", &proxy, &card).expect_not_sent(401);
    assert_eq!(host.request_count(), 1);
}

/// Every visitor of a page has the public key. A destination that repeats its request would show
/// the configuration to all of them.
#[test]
fn public_key_at_a_keyless_proxy_reads_no_configuration() {
    let host = PROXY.destinations.host(&[]);
    let configuration = json!({"secret": "configured-secret"});
    let attributes = json!({"require_auth": false, "configuration": configuration});
    let proxy = PROXY.create_proxy_to(&host, attributes);
    let request = || PROXY.post_as(&PROXY.keys.public, &proxy);
    let body = json!({"a": "{{ config: secret }}"});
    let responses = [
        request().json(&body).send(),
        request().header("X-Value", "{{ proxy.config.secret }}").json(&json!({})).send(),
    ];
    for response in responses {
        assert!(!response.text().contains("configured-secret"), "{}", response.text());
    }
    for received in host.requests() {
        let bytes = [received.head, received.body].concat();
        assert!(!String::from_utf8_lossy(&bytes).contains("configured-secret"));
    }
    request().json(&json!({"plain": 1})).send().expect_answer(200);
}
