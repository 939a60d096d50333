//! Idempotency keys of policy changes: one effect, and the same response as long as the caller has
//! the permission.

use serde_json::{Value, json};

use crate::harness::server::{SERVER, TenantApiKeys, TestResponse, text_field};

struct PolicyCall {
    method: &'static str,
    path: String,
    key: String,
    body: Option<Value>,
}

impl PolicyCall {
    fn new(method: &'static str, path: &str, key: &str, body: Option<Value>) -> Self {
        Self { method, path: path.to_owned(), key: key.to_owned(), body }
    }

    fn send_with_key(&self, idempotency_key: &str) -> TestResponse {
        self.send_body_with_key(idempotency_key, self.body.as_ref())
    }

    fn send_body_with_key(&self, idempotency_key: &str, body: Option<&Value>) -> TestResponse {
        let request =
            SERVER.request(self.method, &self.path).key(&self.key).idempotency_key(idempotency_key);
        match body {
            Some(body) if self.method == "PATCH" => request.merge_patch(body).send(),
            Some(body) => request.json(body).send(),
            None => request.send(),
        }
    }
}

/// Creates an application and returns its path.
fn create_application(keys: &TenantApiKeys) -> String {
    let body = json!({"name": "x", "type": "private", "permissions": ["token:read"]});
    let created = SERVER.post(&keys.management, "/applications", &body).expect_status(201);
    format!("/applications/{}", text_field(&created, "id"))
}

fn create_session_nonce(keys: &TenantApiKeys) -> Value {
    SERVER.post_empty(&keys.public, "/sessions").expect_status(201)["nonce"].clone()
}

/// Returns a call of every operation that changes policy and supports an idempotency key.
fn policy_calls(keys: &TenantApiKeys) -> Vec<PolicyCall> {
    let application_body =
        json!({"name": "once", "type": "public", "permissions": ["token:create"]});
    let (management, application) = (&keys.management, create_application(keys));
    let update_body = json!({"name": "once", "permissions": ["token:read"]});
    let authorize_body =
        json!({"nonce": create_session_nonce(keys), "permissions": ["token:read"]});
    let tenant_body = json!({"name": "once"});
    let proxy_body = json!({"name": "once", "destination_url": "https://psp.example/v1"});
    let proxy = SERVER.post(management, "/proxies", &proxy_body).expect_status(201);
    let proxy = format!("/proxies/{}", text_field(&proxy, "id"));
    let webhook_body =
        json!({"name": "once", "url": "https://shop.example", "events": ["token.read"]});
    let webhook = SERVER.post(management, "/webhooks", &webhook_body).expect_status(201);
    let webhook = format!("/webhooks/{}", text_field(&webhook, "id"));
    let replay_body = json!({"from": "2020-01-01T00:00:00Z"});
    vec![
        PolicyCall::new("POST", "/applications", management, Some(application_body)),
        PolicyCall::new("PUT", &application, management, Some(update_body)),
        PolicyCall::new("POST", &format!("{application}/keys"), management, None),
        PolicyCall::new("PUT", "/tenants/self", management, Some(tenant_body)),
        PolicyCall::new("POST", "/sessions/authorize", &keys.private, Some(authorize_body)),
        PolicyCall::new("POST", "/proxies", management, Some(proxy_body.clone())),
        PolicyCall::new("PUT", &proxy, management, Some(proxy_body)),
        PolicyCall::new("PATCH", &proxy, management, Some(json!({"name": "twice"}))),
        PolicyCall::new("POST", "/keys", management, None),
        PolicyCall::new("POST", "/webhooks", management, Some(webhook_body.clone())),
        PolicyCall::new("PUT", &webhook, management, Some(webhook_body)),
        PolicyCall::new("POST", &format!("{webhook}/secret"), management, None),
        PolicyCall::new("POST", &format!("{webhook}/test"), management, None),
        PolicyCall::new("POST", &format!("{webhook}/replay"), management, Some(replay_body)),
    ]
}

/// Counts the policy rows and the policy changes of a tenant.
fn policy_row_counts(keys: &TenantApiKeys) -> Vec<i64> {
    let count_rows = |table: &str| SERVER.count_rows(&keys.tenant, table);
    let tables = ["applications", "api_keys", "proxies", "webhooks", "client_keys"];
    tables
        .into_iter()
        .chain(["access_sessions", "log_records", "deliveries"])
        .map(count_rows)
        .collect()
}

#[test]
fn repeated_policy_change_has_one_effect_and_one_response() {
    let keys = SERVER.create_default_tenant();
    for (index, call) in policy_calls(&keys).iter().enumerate() {
        let idempotency_key = format!("change-{index}");
        let first = call.send_with_key(&idempotency_key);
        assert!((200..=204).contains(&first.status), "{}: {}", call.path, first.text);
        let counts_before = policy_row_counts(&keys);
        let other_body = json!({"name": 7, "nonce": "another"});
        for body in [call.body.as_ref(), Some(&other_body)] {
            let repeated = call.send_body_with_key(&idempotency_key, body);
            let is_equal = (repeated.status, &repeated.text) == (first.status, &first.text);
            assert!(is_equal, "{}: {} then {}", call.path, first.text, repeated.text);
            let content_type = |it: &TestResponse| it.headers.get("content-type").cloned();
            assert_eq!(content_type(&repeated), content_type(&first));
        }
        assert_eq!(policy_row_counts(&keys), counts_before, "{}", call.path);
        // With another idempotency key, the request is executed. It fails only if it authorizes a
        // session, because a nonce can be used only once.
        let is_authorization = call.path.ends_with("authorize");
        let response_to_another_key = call.send_with_key(&format!("another-{index}"));
        assert_eq!(
            response_to_another_key.status,
            if is_authorization { 409 } else { first.status },
            "{}",
            response_to_another_key.text
        );
        assert_eq!(policy_row_counts(&keys) == counts_before, is_authorization, "{}", call.path);
    }
}

#[test]
fn replayed_response_has_the_same_working_api_key() {
    let keys = SERVER.create_default_tenant();
    let calls = policy_calls(&keys);
    for call in [&calls[0], &calls[2]] {
        // Each call has its own idempotency key. Otherwise the second call would get a replay of
        // the first response.
        let idempotency_key = format!("key of {}", call.path);
        let api_key = text_field(&call.send_with_key(&idempotency_key).expect_status(201), "key");
        let replayed = text_field(&call.send_with_key(&idempotency_key).expect_status(201), "key");
        assert_eq!(replayed, api_key);
        SERVER.get_path(&api_key, "/applications/key").expect_status(200);
    }
    let responses = [calls[4].send_with_key("lent"), calls[4].send_with_key("lent")];
    for response in &responses {
        assert_eq!((response.status, response.text.as_str()), (204, ""));
        let has_type = response.headers.contains_key("content-type");
        assert!(!has_type, "a 204 response has a content type");
    }
    calls[4].send_with_key("lent-again").expect_problem(409, "used before");
}

/// Every browser has the public key. A caller that guesses an idempotency key must not get a
/// session.
#[test]
fn create_access_session_is_never_replayed() {
    let keys = SERVER.create_default_tenant();
    let create_session = || {
        SERVER
            .request("POST", "/sessions")
            .key(&keys.public)
            .idempotency_key("order-7")
            .send()
            .expect_status(201)
    };
    let (first_session, second_session) = (create_session(), create_session());
    assert_ne!(first_session["session_key"], second_session["session_key"]);
    let body = json!({"type": "token", "data": 1});
    let create_request =
        SERVER.request("POST", "/tokens").key(&keys.public).idempotency_key("order-7").json(&body);
    assert_eq!(create_request.send().expect_status(201)["type"], "token");
}

#[test]
fn replay_is_denied_after_the_permission_was_removed() {
    let keys = SERVER.create_default_tenant();
    let all_permissions = json!(["application:create", "application:update", "tenant:update"]);
    let application_body = |permissions: &Value| {
        json!({"name": "m",
        "type": "management", "permissions": permissions})
    };
    let created = SERVER.create_entity(
        &keys.management,
        "/applications",
        &application_body(&all_permissions),
    );
    let (path, key) =
        (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"));
    let set_permissions = |permissions: &Value| {
        SERVER.put(&keys.management, &path, &application_body(permissions)).expect_status(200);
    };
    let required_permissions =
        ["application:create", "application:update", "application:create", "tenant:update"];
    let mut calls = policy_calls(&keys);
    calls.truncate(required_permissions.len());
    for call in &mut calls {
        call.key.clone_from(&key);
    }
    for (index, (call, required)) in calls.iter().zip(required_permissions).enumerate() {
        let idempotency_key = format!("lost-{index}");
        let first = call.send_with_key(&idempotency_key);
        assert!([200, 201].contains(&first.status), "{}", first.text);
        let mut remaining_permissions = all_permissions.clone();
        remaining_permissions.as_array_mut().unwrap().retain(|it| it != required);
        set_permissions(&remaining_permissions);
        call.send_with_key(&idempotency_key).expect_problem(403, required);
        // A route that the caller may still use does not replay the response either.
        let other = calls[(index + 1) % calls.len()].send_with_key(&idempotency_key);
        assert_eq!(other.status, 422, "{}", other.text);
        set_permissions(&all_permissions);
        assert_eq!(call.send_with_key(&idempotency_key).text, first.text);
    }
}

#[test]
fn token_intent_replay_needs_the_permission_in_the_containers_of_the_intent() {
    let keys = SERVER.create_default_tenant();
    let application = |container: &str| {
        let permissions = ["token-intent:create"];
        let rule = json!({"description": "intents", "priority": 1, "container": container,
            "transform": "mask", "permissions": permissions});
        json!({"name": "checkout", "type": "private", "rules": [rule]})
    };
    let created = SERVER.create_entity(&keys.management, "/applications", &application("/first/"));
    let (path, key) =
        (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"));
    let body =
        json!({"type": "card_number", "data": "4242424242424242", "containers": ["/first/"]});
    let create_intent = || SERVER.post_once(&key, "/token-intents", "intent", &body);
    let first = create_intent();
    assert_eq!(first.status, 201, "{}", first.text);
    assert_eq!(create_intent().text, first.text);
    SERVER.put(&keys.management, &path, &application("/second/")).expect_status(200);
    create_intent().expect_problem(403, "token-intent:create");
}

#[test]
fn failed_policy_change_is_not_replayed() {
    let keys = SERVER.create_default_tenant();
    for (index, call) in policy_calls(&keys).iter().enumerate().filter(|(_, it)| it.body.is_some())
    {
        let idempotency_key = format!("failed-{index}");
        call.send_body_with_key(&idempotency_key, Some(&json!({"name": "", "nonce": 7})))
            .expect_problem(400, "");
        assert!((200..=204).contains(&call.send_with_key(&idempotency_key).status));
    }
}
