//! Origins of public applications: their attribute, the frames of their fields, and requests with
//! their keys.

use serde_json::{Value, json};

use super::{API_HOST, FIELD_HOST, FIELD_KEYS, FIELDS, PAGES, production_hosting, request};
use crate::{
    harness::server::{TestResponse, TestServer, card_body, text_field, unique_card_number},
    proxy::harness::ProxyHarness,
};

const SHOP: &str = "https://shop.example";
const FOREIGN_ORIGINS: [&str; 6] = [
    "https://attacker.example",
    "http://shop.example",
    "https://shop.example:8443",
    "https://shop.example.attacker.example",
    "null",
    "",
];

fn create(body: &Value) -> TestResponse {
    FIELDS.post(&FIELD_KEYS.management, "/applications", body)
}

fn public_body(origins: Value) -> Value {
    json!({"name": "Checkout", "type": "public", "permissions": ["token:create"], "origins": origins})
}

/// Creates a public application, and returns its id and its key.
fn create_public(server: &TestServer, management: &str, origins: Value) -> [String; 2] {
    let created = server.post(management, "/applications", &public_body(origins));
    let created = created.expect_status(201);
    [text_field(&created, "id"), text_field(&created, "key")]
}

#[test]
fn origins_are_normalised_and_returned() {
    let given =
        json!(["https://Shop.example:443", "http://localhost:3000", "https://shop.example"]);
    let created = create(&public_body(given)).expect_status(201);
    let expected = json!(["https://shop.example", "http://localhost:3000"]);
    assert_eq!(created["origins"], expected);
    let (id, key) = (text_field(&created, "id"), text_field(&created, "key"));
    let path = format!("/applications/{id}");
    let get = |path: &str, key: &str| FIELDS.get_path(key, path).expect_status(200);
    assert_eq!(get(&path, &FIELD_KEYS.management)["origins"], expected);
    assert_eq!(get("/applications/key", &key)["origins"], expected);
    let list = get(&format!("/applications?id={id}"), &FIELD_KEYS.management);
    assert_eq!(list["data"][0]["origins"], expected);
}

#[test]
fn update_without_origins_keeps_them_and_null_or_empty_clears_them() {
    let update = |id: &str, body: &Value| {
        FIELDS.put(&FIELD_KEYS.management, &format!("/applications/{id}"), body).expect_status(200)
    };
    for cleared in [json!([]), json!(null)] {
        let [id, _] = create_public(&FIELDS, &FIELD_KEYS.management, json!([SHOP]));
        let kept = update(&id, &json!({"name": "Renamed", "permissions": ["token:create"]}));
        assert_eq!((&kept["name"], &kept["origins"]), (&json!("Renamed"), &json!([SHOP])));
        let changed = update(
            &id,
            &json!({"name": "x", "permissions": ["token:create"], "origins": ["https://other.example"]}),
        );
        assert_eq!(changed["origins"], json!(["https://other.example"]));
        let updated =
            update(&id, &json!({"name": "x", "permissions": ["token:create"], "origins": cleared}));
        assert_eq!(updated["origins"], json!([]));
    }
}

#[test]
fn invalid_origins_are_rejected() {
    let many: Vec<_> = (0..21).map(|it| format!("https://shop{it}.example")).collect();
    for origins in [
        json!(["*"]),
        json!(["https://*.shop.example"]),
        json!(["https://shop.example/"]),
        json!(["http://shop.example"]),
        json!(["https://shop.example; script-src *"]),
        json!(["https://a.example https://b.example"]),
        json!([1]),
        json!("https://shop.example"),
        json!(many),
    ] {
        create(&public_body(origins.clone())).expect_invalid("origins");
        let path = format!(
            "/applications/{}",
            create_public(&FIELDS, &FIELD_KEYS.management, json!([]))[0]
        );
        let body = json!({"name": "x", "permissions": ["token:create"], "origins": origins});
        FIELDS.put(&FIELD_KEYS.management, &path, &body).expect_invalid("origins");
    }
}

#[test]
fn only_public_applications_can_have_origins() {
    for (kind, permission) in [("private", "token:read"), ("management", "tenant:read")] {
        let body = |origins: Value| json!({"name": "x", "type": kind, "permissions": [permission], "origins": origins});
        create(&body(json!([SHOP]))).expect_invalid("origins");
        let created = create(&body(json!([]))).expect_status(201);
        assert_eq!(created.get("origins"), None);
        let path = format!("/applications/{}", text_field(&created, "id"));
        let update = FIELDS.put(&FIELD_KEYS.management, &path, &body(json!([SHOP])));
        update.expect_invalid("origins");
    }
}

#[test]
fn pages_can_be_framed_by_the_origins_of_their_application_only() {
    let origins = json!([SHOP, "http://localhost:3000"]);
    let [id, key] = create_public(&FIELDS, &FIELD_KEYS.management, origins);
    for page in PAGES {
        let path = format!("{page}?application={key}");
        let response = request("GET", &path).send();
        let policy = &response.headers["content-security-policy"];
        let directive = "frame-ancestors https://shop.example http://localhost:3000;";
        assert!(policy.contains(directive), "{policy}");
        assert_eq!(response.headers["cache-control"], "no-cache");
        // A page of another application has another tag.
        let other = request("GET", page).header("If-None-Match", &response.headers["etag"]).send();
        assert_eq!(other.status, 200, "{page}");
    }
    let controller = format!("{}?application={key}", PAGES[1]);
    let response = request("GET", &controller).send();
    let meta = "content=\"[&quot;https://shop.example&quot;,&quot;http://localhost:3000&quot;]\"";
    assert!(response.text.contains(meta), "{}", response.text);
    // A changed list is not taken from a cache.
    let body = json!({"name": "x", "permissions": ["token:create"], "origins": [SHOP]});
    FIELDS.put(&FIELD_KEYS.management, &format!("/applications/{id}"), &body).expect_status(200);
    let changed = request("GET", &controller).header("If-None-Match", &response.headers["etag"]);
    let changed = changed.send();
    assert_eq!(changed.status, 200);
    let policy = &changed.headers["content-security-policy"];
    assert!(policy.contains("frame-ancestors https://shop.example;"));
}

#[test]
fn key_works_only_on_pages_of_its_origins() {
    let [_, key] = create_public(&FIELDS, &FIELD_KEYS.management, json!([SHOP]));
    let send = |host: &str, path: &str, origins: &[&str]| {
        let request = FIELDS.request("POST", path).header("Host", host).key(&key);
        let request = origins.iter().fold(request, |it, origin| it.header("Origin", origin));
        request.json(&card_body(&unique_card_number())).send()
    };
    for (host, path) in
        [(API_HOST, "/tokens"), (API_HOST, "/api/tokens"), (FIELD_HOST, "/api/tokens")]
    {
        for allowed in [&[][..], &[SHOP], &["https://fields.example"]] {
            send(host, path, allowed).expect_status(201);
        }
        for foreign in FOREIGN_ORIGINS {
            send(host, path, &[foreign])
                .expect_problem(403, "not in the origins of the application");
        }
        send(host, path, &[SHOP, "https://attacker.example"]).expect_problem(403, "origins");
    }
    // The origin of a server is no origin of the fields, outside of development.
    send("127.0.0.1", "/tokens", &["http://127.0.0.1"]).expect_problem(403, "origins");
    for foreign in FOREIGN_ORIGINS {
        let request = FIELDS.request("POST", "/tokens").key(&FIELD_KEYS.public);
        let request = request.header("Origin", foreign).json(&card_body(&unique_card_number()));
        request.send().expect_status(201);
    }
}

#[test]
fn operation_for_any_key_also_checks_the_origin() {
    let [_, key] = create_public(&FIELDS, &FIELD_KEYS.management, json!([SHOP]));
    for path in ["/applications/key", "/permissions", "/enrichments/card-details?bin=424242"] {
        let request =
            |origin: &str| FIELDS.request("GET", path).key(&key).header("Origin", origin).send();
        request(SHOP).expect_status(200);
        request("https://attacker.example").expect_problem(403, "origins");
    }
}

#[test]
fn access_session_has_the_origins_of_its_application() {
    let [_, key] = create_public(&FIELDS, &FIELD_KEYS.management, json!([SHOP]));
    let create = |origin: &str| {
        FIELDS.request("POST", "/sessions").key(&key).header("Origin", origin).send()
    };
    create("https://attacker.example").expect_problem(403, "origins");
    let session = create(SHOP).expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["token:read"]});
    FIELDS.post(&FIELD_KEYS.private, "/sessions/authorize", &body).expect_status(204);
    let session_key = text_field(&session, "session_key");
    let list = |origin: &str| {
        FIELDS.request("GET", "/v2/tokens").key(&session_key).header("Origin", origin).send()
    };
    list(SHOP).expect_status(200);
    list("https://attacker.example").expect_problem(403, "origins");
}

#[test]
fn denied_origin_is_recorded() {
    let [id, key] = create_public(&FIELDS, &FIELD_KEYS.management, json!([SHOP]));
    let request = FIELDS.request("POST", "/tokens").key(&key);
    let request = request.header("Origin", "https://attacker.example");
    let denied = request.json(&card_body(&unique_card_number())).send();
    denied.expect_problem(403, "origins");
    let trace = &denied.headers["bt-trace-id"];
    let logs = FIELDS.get_path(&FIELD_KEYS.management, "/logs?size=100").expect_status(200);
    let record = logs["data"].as_array().unwrap().iter().find(|it| it.to_string().contains(trace));
    let record = record.unwrap_or_else(|| panic!("{trace} is not in {logs}"));
    assert_eq!(record["operation"], "create_token");
    assert!(record.to_string().contains(&id), "{record}");
}

#[test]
fn proxied_call_checks_the_origin_of_its_caller() {
    let harness =
        ProxyHarness::start_with(|setup, _| setup.settings.field_hosting = production_hosting());
    let host = harness.destinations.host(&[]);
    let origins = json!([SHOP]);
    let [_, key] = create_public(&harness.server, &harness.keys.management, origins);
    let session = harness.server.post_empty(&key, "/sessions").expect_status(201);
    let body = json!({"nonce": session["nonce"], "permissions": ["token:use"]});
    harness.server.post(&harness.keys.private, "/sessions/authorize", &body).expect_status(204);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let call = |origin: &str| {
        let request = harness.request("POST", "/x").api_key(&text_field(&session, "session_key"));
        request.proxy_key(&proxy.key).header("Origin", origin).json(&json!({"a": 1})).send()
    };
    let error = call("https://attacker.example").expect_not_sent(403);
    assert!(error["detail"].as_str().unwrap().contains("origins"), "{error}");
    assert_eq!(host.request_count(), 0);
    call(SHOP).expect_answer(200);
    assert_eq!(host.request_count(), 1);
}

#[test]
fn development_allows_the_origin_of_the_server() {
    let server = TestServer::start_with(|setup| setup.settings.field_hosting.is_on_loopback = true);
    let keys = server.create_default_tenant();
    let [_, key] = create_public(&server, &keys.management, json!([SHOP]));
    let send = |host: &str, origin: &str| {
        let request = server.request("POST", "/api/tokens").header("Host", host).key(&key);
        request.header("Origin", origin).json(&card_body(&unique_card_number())).send()
    };
    send("localhost:4242", "http://localhost:4242").expect_status(201);
    send("localhost:4242", SHOP).expect_status(201);
    send("localhost:4242", "http://localhost:3000").expect_problem(403, "origins");
    send("vault.example", "https://vault.example").expect_problem(403, "origins");
}
