//! The idempotency key where policy is changed: one effect, and the same answer for as long as the
//! caller may have it.

use scrip_core::policy::TenantSettings;
use serde_json::{Value, json};

use crate::harness::server::{SHARED_SERVER, TenantApiKeys, TestResponse, text_field};

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

    fn idempotency_key(&self, once: &str) -> TestResponse {
        self.send_once_with(once, self.body.as_ref())
    }

    fn send_once_with(&self, idempotency_key: &str, body: Option<&Value>) -> TestResponse {
        let ask = SHARED_SERVER
            .request(self.method, &self.path)
            .key(&self.key)
            .idempotency_key(idempotency_key);
        if let Some(body) = body { ask.json(body).send() } else { ask.send() }
    }
}

/// An application: its path.
fn create_application(keys: &TenantApiKeys) -> String {
    let body = json!({"name": "x", "type": "private", "permissions": ["token:read"]});
    let created = SHARED_SERVER.post(&keys.management, "/applications", &body).expect_status(201);
    format!("/applications/{}", text_field(&created, "id"))
}

fn create_session_nonce(keys: &TenantApiKeys) -> Value {
    SHARED_SERVER.request("POST", "/sessions").key(&keys.public).send().expect_status(201)["nonce"]
        .clone()
}

/// Everything that changes policy and has a body to repeat, or none.
fn policy_calls(keys: &TenantApiKeys) -> Vec<PolicyCall> {
    let rights = json!({"name": "once", "type": "public", "permissions": ["token:create"]});
    let (management, application) = (&keys.management, create_application(keys));
    let update = json!({"name": "once", "permissions": ["token:read"]});
    let lends = json!({"nonce": create_session_nonce(keys), "permissions": ["token:read"]});
    let tenant = json!({"name": "once"});
    vec![
        PolicyCall::new("POST", "/applications", management, Some(rights)),
        PolicyCall::new("PUT", &application, management, Some(update)),
        PolicyCall::new("POST", &format!("{application}/keys"), management, None),
        PolicyCall::new("PUT", "/tenants/self", management, Some(tenant)),
        PolicyCall::new("POST", "/sessions/authorize", &keys.private, Some(lends)),
    ]
}

/// How much policy a tenant has, and how often it was changed.
fn policy_row_counts(keys: &TenantApiKeys) -> Vec<i64> {
    let count = |table: &str| SHARED_SERVER.count_rows(&keys.tenant, table);
    ["applications", "api_keys", "access_sessions", "audit"].map(count).to_vec()
}

#[test]
fn repeated_policy_change_has_one_effect_and_one_response() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    for (at, call) in policy_calls(&keys).iter().enumerate() {
        let once = format!("change-{at}");
        let first = call.idempotency_key(&once);
        assert!((200..=204).contains(&first.status), "{}: {}", call.path, first.text);
        let before = policy_row_counts(&keys);
        let other = json!({"name": 7, "nonce": "another"});
        for body in [call.body.as_ref(), Some(&other)] {
            let again = call.send_once_with(&once, body);
            let same = (again.status, &again.text) == (first.status, &first.text);
            assert!(same, "{}: {} then {}", call.path, first.text, again.text);
            let form = |it: &TestResponse| it.headers.get("content-type").cloned();
            assert_eq!(form(&again), form(&first));
        }
        assert_eq!(policy_row_counts(&keys), before, "{}", call.path);
        // Another key is another request; only a nonce does not come twice.
        let used = call.path.ends_with("authorize");
        let another = call.idempotency_key(&format!("another-{at}"));
        assert_eq!(another.status, if used { 409 } else { first.status }, "{}", another.text);
        assert_eq!(policy_row_counts(&keys) == before, used, "{}", call.path);
    }
}

#[test]
fn replayed_response_has_the_same_working_api_key() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let calls = policy_calls(&keys);
    for call in [&calls[0], &calls[2]] {
        // One for each: the second call would be given the first one's answer.
        let once = format!("shown by {}", call.path);
        let first = text_field(&call.idempotency_key(&once).expect_status(201), "key");
        assert_eq!(text_field(&call.idempotency_key(&once).expect_status(201), "key"), first);
        SHARED_SERVER.get_path(&first, "/applications/key").expect_status(200);
    }
    let authorized = [calls[4].idempotency_key("lent"), calls[4].idempotency_key("lent")];
    for reply in &authorized {
        assert_eq!((reply.status, reply.text.as_str()), (204, ""));
        assert!(!reply.headers.contains_key("content-type"), "there is no content");
    }
    calls[4].idempotency_key("lent-again").expect_problem(409, "used before");
}

/// Every browser has the public key: whoever guesses an idempotency key must not be given a session.
#[test]
fn create_access_session_is_never_replayed() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let begin = || {
        SHARED_SERVER
            .request("POST", "/sessions")
            .key(&keys.public)
            .idempotency_key("order-7")
            .send()
            .expect_status(201)
    };
    let (one, two) = (begin(), begin());
    assert_ne!(one["session_key"], two["session_key"]);
    let body = json!({"type": "token", "data": 1});
    let token = SHARED_SERVER
        .request("POST", "/tokens")
        .key(&keys.public)
        .idempotency_key("order-7")
        .json(&body);
    assert_eq!(token.send().expect_status(201)["type"], "token");
}

#[test]
fn replay_is_denied_after_the_permission_was_removed() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let all = json!(["application:create", "application:update", "tenant:update"]);
    let body = |permissions: &Value| json!({"name": "m", "type": "management", "permissions": permissions});
    let created =
        SHARED_SERVER.post(&keys.management, "/applications", &body(&all)).expect_status(201);
    let (path, key) =
        (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"));
    let grant = |permissions: &Value| {
        SHARED_SERVER.put(&keys.management, &path, &body(permissions)).expect_status(200);
    };
    let needs = ["application:create", "application:update", "application:create", "tenant:update"];
    let mut calls = policy_calls(&keys);
    calls.truncate(needs.len());
    for call in &mut calls {
        call.key.clone_from(&key);
    }
    for (at, (call, needed)) in calls.iter().zip(needs).enumerate() {
        let once = format!("lost-{at}");
        let first = call.idempotency_key(&once);
        assert!([200, 201].contains(&first.status), "{}", first.text);
        let mut others = all.clone();
        others.as_array_mut().unwrap().retain(|it| it != needed);
        grant(&others);
        call.idempotency_key(&once).expect_problem(403, needed);
        // Nor by way of a route that is still open to it.
        calls[(at + 1) % calls.len()].idempotency_key(&once).expect_problem(403, needed);
        grant(&all);
        assert_eq!(call.idempotency_key(&once).text, first.text);
    }
}

#[test]
fn token_intent_replay_needs_the_permission_in_the_containers_of_the_intent() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let application = |container: &str| {
        let permissions = ["token-intent:create"];
        let rule = json!({"description": "intents", "priority": 1, "container": container,
            "transform": "mask", "permissions": permissions});
        json!({"name": "checkout", "type": "private", "rules": [rule]})
    };
    let created = SHARED_SERVER
        .post(&keys.management, "/applications", &application("/first/"))
        .expect_status(201);
    let (path, key) =
        (format!("/applications/{}", text_field(&created, "id")), text_field(&created, "key"));
    let body =
        json!({"type": "card_number", "data": "4242424242424242", "containers": ["/first/"]});
    let create = || {
        SHARED_SERVER
            .request("POST", "/token-intents")
            .key(&key)
            .idempotency_key("intent")
            .json(&body)
            .send()
    };
    let first = create();
    assert_eq!(first.status, 201, "{}", first.text);
    assert_eq!(create().text, first.text);
    SHARED_SERVER.put(&keys.management, &path, &application("/second/")).expect_status(200);
    create().expect_problem(403, "token-intent:create");
}

#[test]
fn failed_policy_change_is_not_replayed() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    for (at, call) in policy_calls(&keys).iter().enumerate().filter(|(_, it)| it.body.is_some()) {
        let once = format!("failed-{at}");
        call.send_once_with(&once, Some(&json!({"name": "", "nonce": 7}))).expect_problem(400, "");
        assert!((200..=204).contains(&call.idempotency_key(&once).status));
    }
}

#[test]
fn delete_ignores_the_idempotency_key() {
    let keys = SHARED_SERVER.create_test_tenant(TenantSettings::default());
    let path = create_application(&keys);
    let delete = PolicyCall::new("DELETE", &path, &keys.management, None);
    delete.idempotency_key("deleted").expect_status(204);
    delete.idempotency_key("deleted").expect_problem(404, "no such thing");
}
