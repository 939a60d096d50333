//! Idempotency keys of hosted fields. A page sends its guesses next to a typed value: neither an answer
//! nor a counter depends on whether they are equal.

use std::sync::atomic::{AtomicUsize, Ordering};

use scrip_core::{
    policy::TenantSettings,
    types::{
        ApplicationKind::Public,
        Permission::{TokenCreate, TokenIntentCreate, TokenUpdate},
        TenantKind,
    },
};
use serde_json::{Value, json};

use crate::{
    harness::server::{SERVER, TenantApiKeys, TestResponse, TestServer, text_field},
    limits::guessing_budget_harness::GuessingBudgetHarness,
    proxy::harness::ProxyHarness,
};

/// The maximum number of counted numbers in a compared body.
const NUMBERS_MAX: usize = 100;
const TYPED: &str = "900000000000";

/// A key as the frame sends it.
fn frame_key() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{:064x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A page whose frame sends values of its fields.
struct FieldPage<'a> {
    server: &'a TestServer,
    public: String,
    /// The key of its calls: the public one, or that of a session.
    key: String,
}

impl<'a> FieldPage<'a> {
    fn new(server: &'a TestServer, keys: &TenantApiKeys) -> Self {
        let permissions = [TokenCreate, TokenUpdate, TokenIntentCreate];
        let public = server.key_with_permissions(&keys.tenant, Public, &permissions);
        Self { server, key: public.clone(), public }
    }

    fn on_shared_server() -> Self {
        let keys = SERVER.create_test_tenant(TenantSettings::default());
        FieldPage::new(&SERVER, &keys)
    }

    /// A request of the frame with an idempotency key.
    fn send(&self, method: &str, path: &str, idempotency_key: &str, body: &Value) -> TestResponse {
        let request = self.server.request(method, path).key(&self.key);
        let request = request.header("Scrip-Field-Application", &self.public);
        let request = request.header("Scrip-Field-Kinds", "text");
        let request = request.header("Scrip-Field-Mark", "text").idempotency_key(idempotency_key);
        match method {
            "PATCH" => request.merge_patch(body).send(),
            _ => request.json(body).send(),
        }
    }

    /// The same request without the headers of the frame.
    fn send_literals(&self, path: &str, idempotency_key: &str, body: &Value) -> TestResponse {
        let request = self.server.request("POST", path).key(&self.key);
        request.idempotency_key(idempotency_key).json(body).send()
    }
}

/// A typed value, and numbers of the page. The body has one number more than the maximum if the typed
/// value is none of them.
fn data_at_maximum(typed: &str) -> Value {
    let own = (0..NUMBERS_MAX).map(|it| format!("9{it:011}"));
    let mut data: serde_json::Map<_, _> =
        own.enumerate().map(|(index, number)| (format!("g{index}"), number.into())).collect();
    data.insert("typed".to_owned(), typed.into());
    Value::Object(data)
}

/// The typed values: one that the page guessed, and one that it did not guess.
const TYPED_VALUES: [&str; 2] = [TYPED, "987654321012"];

#[test]
fn repeated_field_call_is_answered_whether_or_not_a_guess_equals_the_typed_value() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let page = FieldPage::new(&harness.server, &harness.keys);
    let token = |data: Value| json!({"type": "token", "data": data});
    let first = page.send("POST", "/tokens", &frame_key(), &token(json!("x"))).expect_status(201);
    let update = format!("/tokens/{}", text_field(&first, "id"));
    for typed in TYPED_VALUES {
        let body = token(data_at_maximum(typed));
        let requests = [
            ("POST", "/tokens", body.clone()),
            ("POST", "/token-intents", body.clone()),
            ("POST", "/tokenize", json!({"a": body})),
            ("PATCH", update.as_str(), json!({"data": data_at_maximum(typed)})),
        ];
        for (method, path, body) in requests {
            let key = frame_key();
            let first = page.send(method, path, &key, &body);
            assert!(matches!(first.status, 200 | 201), "{path} {typed}: {}", first.text);
            let second = page.send(method, path, &key, &body);
            assert_eq!(second.status, first.status, "{path} {typed}: {}", second.text);
            assert_eq!(second.json(), first.json(), "{path} {typed}");
        }
    }
}

/// Control: without the headers of a frame, the numbers of a repeated request count.
#[test]
fn repeated_request_of_literals_with_more_than_100_numbers_is_rejected() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let page = FieldPage::new(&harness.server, &harness.keys);
    for (typed, status) in TYPED_VALUES.into_iter().zip([201, 422]) {
        let body = json!({"type": "token", "data": data_at_maximum(typed)});
        let key = frame_key();
        page.send_literals("/tokens", &key, &body).expect_status(201);
        assert_eq!(page.send_literals("/tokens", &key, &body).status, status, "{typed}");
    }
}

#[test]
fn repeated_proxied_call_of_a_frame_is_answered_whether_or_not_a_guess_equals_the_typed_value() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let server = &harness.server;
    let session = server.request("POST", "/sessions").key(&harness.keys.public).send().json();
    let grant = json!({"nonce": session["nonce"], "permissions": ["token:use", "proxy:invoke"]});
    server.post(&harness.keys.private, "/sessions/authorize", &grant).expect_status(204);
    let session = text_field(&session, "session_key");
    let host = harness.destinations.host(&[]);
    let proxy = harness.create_proxy_to(&host, json!({"require_auth": true}));
    let send = |is_frame: bool, key: &str, body: &Value| {
        let request = harness.post_as(&session, &proxy);
        let request = match is_frame {
            true => request.header("Scrip-Field-Application", &harness.keys.public),
            false => request,
        };
        request.idempotency_key(key).json(body).send().status()
    };
    for (typed, literal_status) in TYPED_VALUES.into_iter().zip([200, 409]) {
        let (body, key) = (data_at_maximum(typed), frame_key());
        let statuses = [(); 2].map(|()| send(true, &key, &body));
        assert_eq!(statuses, [200, 200], "{typed}");
        // Control: the numbers of other repeated calls count.
        let statuses = [(); 2].map(|()| send(false, &key, &body));
        assert_eq!(statuses, [200, literal_status], "{typed}");
    }
    assert_eq!(host.request_count(), 4, "a repeated call is not sent again");
    assert_eq!(send(true, "order-1", &json!({})), 400, "the key is no digest");
}

fn bank(account_number: &str) -> Value {
    json!({"routing_number": "021000021", "account_number": account_number})
}

/// A page that names the group of a typed code could find it among its guesses by the budget.
#[test]
fn typed_values_of_a_repeated_field_call_do_not_count() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let page = FieldPage::new(&harness.server, &harness.keys);
    let body = json!({"type": "token", "data": {"a": bank("613")}});
    let key = frame_key();
    for _ in 0..3 {
        page.send("POST", "/tokens", &key, &body).expect_status(201);
    }
    let fingerprint_of = |account: usize| {
        let body = json!({"type": "bank", "data": bank(&account.to_string())});
        harness.server.create_token_ok(&page.public, &body)["fingerprint"].clone()
    };
    let has_fingerprint: Vec<_> = (100..121).map(|it| fingerprint_of(it).is_string()).collect();
    assert_eq!(has_fingerprint, [&[true; 20][..], &[false]].concat());
}

/// A text that stands in the account number of a bank is marked, and counts in no write.
#[test]
fn typed_code_in_an_account_number_does_not_count() {
    let harness = GuessingBudgetHarness::new(TenantKind::Production);
    let page = FieldPage::new(&harness.server, &harness.keys);
    let body = json!({"type": "bank", "data": bank("613")});
    let token = page.send("POST", "/tokens", &frame_key(), &body).expect_status(201);
    page.send("POST", "/token-intents", &frame_key(), &body).expect_status(201);
    let tokenized = page.send("POST", "/tokenize", &frame_key(), &json!({"a": body}));
    assert!(matches!(tokenized.status, 200 | 201), "{}", tokenized.text);
    let path = format!("/tokens/{}", text_field(&token, "id"));
    page.send("PATCH", &path, &frame_key(), &json!({"data": bank("614")})).expect_status(200);
    let fingerprint_of = |account: usize| {
        let body = json!({"type": "bank", "data": bank(&account.to_string())});
        harness.server.create_token_ok(&page.public, &body)["fingerprint"].clone()
    };
    let has_fingerprint: Vec<_> = (100..121).map(|it| fingerprint_of(it).is_string()).collect();
    assert_eq!(has_fingerprint, [&[true; 20][..], &[false]].concat());
}

#[test]
fn field_call_and_request_of_literals_never_share_an_idempotency_key() {
    let page = FieldPage::on_shared_server();
    let body = |data: &str| json!({"type": "token", "data": data});
    let (first_key, second_key) = (frame_key(), frame_key());
    let ids = [
        page.send("POST", "/tokens", &first_key, &body("typed")),
        page.send_literals("/tokens", &first_key, &body("guess")),
        page.send_literals("/tokens", &second_key, &body("guess")),
        page.send("POST", "/tokens", &second_key, &body("typed")),
    ]
    .map(|it| text_field(&it.expect_status(201), "id"));
    let repeated = page.send("POST", "/tokens", &first_key, &body("typed")).expect_status(201);
    assert_eq!(text_field(&repeated, "id"), ids[0]);
    let mut distinct = ids.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
}

#[test]
fn repeated_field_call_is_recognized_by_key_method_and_path() {
    let page = FieldPage::on_shared_server();
    let body = |data: &str| json!({"type": "token", "data": data});
    let key = frame_key();
    let first = page.send("POST", "/tokens", &key, &body("a")).expect_status(201);
    let second = page.send("POST", "/tokens", &key, &body("b")).expect_status(201);
    assert_eq!(first, second, "the key names the content");
    assert_eq!(page.send("POST", "/token-intents", &key, &body("a")).status, 422);
}

#[test]
fn idempotency_key_of_a_field_call_is_a_digest() {
    let page = FieldPage::on_shared_server();
    let body = json!({"type": "token", "data": "x"});
    for key in ["order-1", &"a".repeat(63), &"a".repeat(65), &"A".repeat(64), &"g".repeat(64)] {
        page.send("POST", "/tokens", key, &body).expect_invalid("BT-IDEMPOTENCY-KEY");
        page.send_literals("/tokens", key, &body).expect_status(201);
    }
}
