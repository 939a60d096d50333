//! Values of hosted fields: the keys and the proxies with which a frame may send them.

use serde_json::{Value, json};

use super::{FIELD_KEYS, FIELDS};
use crate::{
    harness::server::{TestResponse, TestServer, card_body, text_field, unique_card_number},
    proxy::harness::{PROXY, ProxyResponse},
};

const HEADER: &str = "Scrip-Field-Application";

/// Creates a public application, and returns its id and its key.
fn create_public(server: &TestServer, management: &str) -> [String; 2] {
    let body = json!({"name": "Other", "type": "public", "permissions": ["token:create"]});
    let created = server.post(management, "/applications", &body).expect_status(201);
    [text_field(&created, "id"), text_field(&created, "key")]
}

/// Creates an access session of a public application with these permissions.
fn create_session(server: &TestServer, public: &str, private: &str, permissions: Value) -> String {
    let session = server.post_empty(public, "/sessions").expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": permissions});
    server.post(private, "/sessions/authorize", &body).expect_status(204);
    text_field(&session, "session_key")
}

/// Creates a token as a frame of the application does.
fn create_as_frame(application: &str, key: &str) -> TestResponse {
    let request = FIELDS.request("POST", "/tokens").key(key).header(HEADER, application);
    request.json(&card_body(&unique_card_number())).send()
}

#[test]
fn frame_sends_values_only_with_keys_of_its_application() {
    let own = &*FIELD_KEYS;
    let stranger = FIELDS.create_default_tenant();
    let [_, other] = create_public(&FIELDS, &own.management);
    let session = |public: &str, private: &str| {
        create_session(&FIELDS, public, private, json!(["token:create"]))
    };
    let own_session = session(&own.public, &own.private);
    for key in [&own.public, &own_session] {
        create_as_frame(&own.public, key).expect_status(201);
    }
    let foreign = [
        ("private key", own.private.clone()),
        ("management key", own.management.clone()),
        ("another public key", other.clone()),
        ("session of another application", session(&other, &own.private)),
        ("public key of another tenant", stranger.public.clone()),
        ("private key of another tenant", stranger.private.clone()),
        ("session of another tenant", session(&stranger.public, &stranger.private)),
    ];
    for (name, key) in &foreign {
        let response = create_as_frame(&own.public, key);
        assert_eq!(response.status, 403, "{name}: {}", response.text);
        response
            .expect_problem(403, "Scrip-Field-Application does not name the public application");
    }
    // Without the header, the same keys have their own rights.
    FIELDS.create_token(&own.private, &card_body(&unique_card_number())).expect_status(201);
}

#[test]
fn header_names_one_public_application() {
    let own = &*FIELD_KEYS;
    for application in [own.private.as_str(), &own.management, "", "unknown"] {
        create_as_frame(application, &own.public).expect_problem(403, HEADER);
    }
    let request = FIELDS.request("POST", "/tokens").key(&own.public);
    let request = request.header(HEADER, &own.public).header(HEADER, &own.public);
    request.json(&card_body(&unique_card_number())).send().expect_problem(400, HEADER);
}

#[test]
fn every_operation_checks_the_key_of_a_frame() {
    let own = &*FIELD_KEYS;
    let [_, other] = create_public(&FIELDS, &own.management);
    for (method, path) in [
        ("GET", "/applications/key"),
        ("GET", "/keys/00000000-0000-0000-0000-000000000000/public-key"),
        ("POST", "/sessions"),
        ("POST", "/tokenize"),
        ("POST", "/token-intents"),
        ("PATCH", "/tokens/x"),
        ("GET", "/enrichments/card-details?bin=424242"),
    ] {
        let request = FIELDS.request(method, path).key(&other).header(HEADER, &own.public);
        request.send().expect_problem(403, HEADER);
    }
}

#[test]
fn denied_key_of_a_frame_is_recorded() {
    let own = &*FIELD_KEYS;
    let [id, other] = create_public(&FIELDS, &own.management);
    let denied = create_as_frame(&own.public, &other);
    denied.expect_problem(403, HEADER);
    let trace = &denied.headers["bt-trace-id"];
    let logs = FIELDS.get_path(&own.management, "/logs?size=100").expect_status(200);
    let record = logs["data"].as_array().unwrap().iter().find(|it| it.to_string().contains(trace));
    let record = record.unwrap_or_else(|| panic!("{trace} is not in {logs}"));
    assert_eq!(record["operation"], "create_token");
    assert!(record.to_string().contains(&id), "{record}");
}

fn expect_denied(response: &ProxyResponse, text: &str) {
    let error = response.expect_not_sent(403);
    assert!(error["detail"].as_str().unwrap().contains(text), "{error}");
}

#[test]
fn frame_sends_values_only_through_proxies_with_require_auth() {
    let (keys, host) = (&PROXY.keys, PROXY.destinations.host(&[]));
    let session = create_session(
        &PROXY.server,
        &keys.public,
        &keys.private,
        json!(["token:use", "proxy:invoke"]),
    );
    let known = PROXY.create_proxy_to(&host, json!({"require_auth": true}));
    let open = PROXY.create_proxy_to(&host, json!({"require_auth": false}));
    let frame = || PROXY.request("POST", "").header(HEADER, &keys.public).json(&json!({"a": 1}));
    let rule = "pre-configured proxy with require_auth";
    expect_denied(&frame().api_key(&session).url(&host.url("")).send(), rule);
    expect_denied(&frame().api_key(&session).proxy_key(&open.key).send(), rule);
    expect_denied(&frame().proxy_key(&open.key).send(), rule);
    expect_denied(&frame().api_key(&keys.private).proxy_key(&known.key).send(), HEADER);
    assert_eq!(host.request_count(), 0);
    frame()
        .api_key(&session)
        .proxy_key(&known.key)
        .header("Scrip-Field-Mark", "x")
        .send()
        .expect_answer(200);
    assert_eq!(host.request_count(), 1);
    let received = format!("{:?}", host.requests());
    assert!(!received.to_lowercase().contains("scrip-field"), "{received}");
}
