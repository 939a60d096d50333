//! An attacker that may use cards and sees only masks: an expression that fails or succeeds depending
//! on a digit discloses the digit, also if nothing is sent. Each attempt is in the log.

mod rejected_data;

use std::sync::Arc;

use scrip_core::{
    audit::{AuditTrail, ReadRecording},
    types::{
        Permission::{ProxyInvoke, TokenRead, TokenUse},
        TenantKind,
        Transform::Mask,
    },
};
use serde_json::{Value, json};

use crate::{
    harness::server::{card_body, grant, text_field, unique_card_number},
    proxy::{
        harness::{CreatedProxy, PROXY, ProxyHarness, ProxyRequest, StatedDelivery, TestCard},
        idempotency::new_key,
    },
};

/// A destination that receives nothing, its proxy, a card, and the key of the attacker.
pub(super) struct OracleAttack<'a> {
    pub(super) harness: &'a ProxyHarness,
    pub(super) host: scrip_testing::destination::DestinationHost,
    pub(super) proxy: CreatedProxy,
    pub(super) card: TestCard,
    /// May use cards through the proxy.
    pub(super) api_key: String,
    /// May use cards anywhere.
    pub(super) use_key: String,
}

impl<'a> OracleAttack<'a> {
    pub(super) fn new(harness: &'a ProxyHarness, proxy_attributes: Value) -> Self {
        let host = harness.destinations.host(&[]);
        let proxy = harness.create_proxy_to(&host, proxy_attributes);
        let key = |permission| {
            let rules = vec![grant("/", Mask, &[TokenRead, permission])];
            harness.server.key_with_rules(&harness.keys.tenant, rules)
        };
        let (api_key, use_key) = (key(ProxyInvoke), key(TokenUse));
        let card = harness.create_card();
        Self { harness, host, proxy, card, api_key, use_key }
    }

    /// The expressions of a key that may send the data anywhere are evaluated.
    pub(super) fn request_with_use(&self) -> ProxyRequest {
        self.harness.request("POST", "").api_key(&self.use_key).proxy_key(&self.proxy.key)
    }

    pub(super) fn request(&self) -> ProxyRequest {
        self.harness.request("POST", "").api_key(&self.api_key).proxy_key(&self.proxy.key)
    }

    /// An expression that fails exactly if the digit at this position has this value.
    pub(super) fn guess(&self, position: usize, digit: char) -> String {
        let id = &self.card.id;
        format!(
            "{{{{ {id} | json: '$.number' | slice: {position}, 1 | replace: '{digit}', 'x' | \
             to_number }}}}"
        )
    }

    /// An expression that always fails.
    fn failing_guess(&self) -> String {
        self.guess(7, char::from(self.card.number.as_bytes()[7]))
    }

    /// The error for a caller that may not read the card, whatever fails.
    fn expected_error(&self) -> Value {
        let request = self.request_with_use();
        let other_card = self.harness.create_card();
        let expression = format!("{{{{ {} | to_number }}}}", other_card.id);
        let response = request.json(&json!({"deep": {"path": expression}})).send();
        response.expect_error(400, StatedDelivery::NotSent)
    }

    /// The records of uses of an entity: outcome and message, oldest first.
    fn uses(&self, operation: &str, entity: &str) -> Vec<(String, String)> {
        let path = format!("/logs?operation={operation}&entity_id={entity}&size=100");
        let logs = self.harness.server.get_path(&self.harness.keys.management, &path);
        let logs = logs.expect_status(200);
        let records = logs["data"].as_array().unwrap().iter().rev();
        records.map(|it| (text_field(it, "outcome"), text_field(it, "message"))).collect()
    }

    /// Expects one use of the card, and its outcome.
    #[track_caller]
    fn expect_single_use(&self, expected: &str) {
        let uses = self.uses("use_token", &self.card.id);
        assert_eq!(uses.len(), 1, "{uses:?}");
        let (outcome, message) = &uses[0];
        assert_eq!(outcome, expected);
        assert!(message.contains(&format!("POST {}", self.host.name())), "{message}");
        assert!(message.contains(&format!("proxy {}", self.proxy.id)), "{message}");
        assert!(message.contains("not sent"), "{message}");
        assert_eq!(self.host.request_count(), 0);
    }
}

#[test]
fn each_guess_of_a_digit_by_a_failing_expression_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let digit = char::from(attack.card.number.as_bytes()[7]);
    let mut found = None;
    let mut attempts = Vec::new();
    for guess in '0'..='9' {
        let response = attack.request_with_use().json(&json!([attack.guess(7, guess)])).send();
        attempts.push(if response.status() == 200 {
            "used_in_call"
        } else {
            response.expect_error(400, StatedDelivery::NotSent);
            found = Some(guess);
            "used_in_rejected_call"
        });
    }
    assert_eq!(found, Some(digit), "the failure discloses the digit");
    let uses = attack.uses("use_token", &attack.card.id);
    let outcomes: Vec<_> = uses.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(outcomes, attempts);
}

/// Otherwise one body with an expression for each possible value would disclose many digits.
#[test]
fn error_of_a_failing_expression_does_not_say_which_one_failed() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let digit = attack.card.number.as_bytes()[7];
    let other = if digit == b'0' { '1' } else { '0' };
    let (failing, other) = (attack.guess(7, char::from(digit)), attack.guess(7, other));
    let first = attack.request_with_use().json(&json!([failing, other])).send();
    let first = first.expect_error(400, StatedDelivery::NotSent);
    let second = attack.request_with_use().json(&json!([other, failing])).send();
    assert_eq!(first, second.expect_error(400, StatedDelivery::NotSent));
    assert_eq!(first["errors"], json!({"proxy": ["not_sent"]}));
    assert_eq!(first, attack.expected_error());
    let header = "{{ proxy.request.body | to_number }}";
    let request = attack.request_with_use().header("X-Guess", header);
    let in_header = request.json(&json!([attack.card.number_expression()])).send();
    assert_eq!(first, in_header.expect_error(400, StatedDelivery::NotSent));
    let request = attack.harness.post_to(&attack.proxy);
    let detailed = request.json(&json!([other, failing])).send();
    let detailed = detailed.expect_error(400, StatedDelivery::NotSent);
    assert!(detailed["errors"]["body[1]"].is_array(), "{detailed}");
}

#[test]
fn errors_that_do_not_depend_on_the_data_stay_detailed() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let body = json!([attack.failing_guess(), "{{ no-such-token }}"]);
    let unknown = attack.request_with_use().json(&body).send();
    let unknown = unknown.expect_error(400, StatedDelivery::NotSent);
    assert!(unknown["errors"]["body[1]"].is_array(), "{unknown}");
    let request =
        attack.request_with_use().header("X-Guess", "{{ proxy.request.body | unknown_filter }}");
    let invalid = request.json(&json!([attack.card.number_expression()])).send();
    let invalid = invalid.expect_error(400, StatedDelivery::NotSent);
    assert!(invalid["errors"]["headers.x-guess"].is_array(), "{invalid}");
}

#[test]
fn failing_expression_in_the_body_is_recorded_as_use_in_a_rejected_call() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let response = attack.request_with_use().json(&json!([attack.failing_guess()])).send();
    response.expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call");
}

#[test]
fn failing_expression_that_reaches_the_cvc_is_recorded_with_the_cvc() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let id = &attack.card.id;
    let expression = format!("{{{{ {id} | json: '$.cvc' | replace: '1', 'x' | to_number }}}}");
    let response = attack.request_with_use().json(&json!([expression])).send();
    response.expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call_with_cvc");
}

#[test]
fn rejected_call_with_an_idempotency_key_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let request = attack.request_with_use().idempotency_key(&new_key());
    let response = request.json(&json!([attack.failing_guess()])).send();
    response.expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call");
}

#[test]
fn failing_header_expression_over_the_body_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let header = "{{ proxy.request.body | to_number }}";
    let request = attack.request_with_use().header("X-Guess", header);
    let response = request.json(&json!([attack.card.number_expression()])).send();
    response.expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call");
}

#[test]
fn failing_request_transform_is_recorded() {
    let transforms = json!([{"type": "append_header", "options": {"location": "X-Guess",
        "value": "{{ req.guess | to_number }}"}}]);
    let attack = OracleAttack::new(&PROXY, json!({"request_transforms": transforms}));
    let body = json!({"guess": "x", "number": attack.card.number_expression()});
    let response = attack.request_with_use().json(&body).send();
    response.expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call");
}

/// The body exceeds its limit only because of the data in it.
#[test]
fn call_that_becomes_too_large_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let expression = format!("{{{{ {} | json: '$.number' | pad_left: 60000 }}}}", attack.card.id);
    let body: Value = (0..20).map(|_| expression.clone()).collect();
    let response = attack.request_with_use().json(&body).send();
    assert_eq!(response.expect_error(400, StatedDelivery::NotSent), attack.expected_error());
    attack.expect_single_use("used_in_rejected_call");
}

#[test]
fn token_next_to_an_unknown_one_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let body = json!([attack.card.number_expression(), "{{ no-such-token }}"]);
    attack.request_with_use().json(&body).send().expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call");
}

#[test]
fn token_intent_in_a_rejected_call_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let body = card_body(&unique_card_number());
    let keys = &attack.harness.keys;
    let created = attack.harness.server.post(&keys.private, "/token-intents", &body);
    let intent = text_field(&created.expect_status(201), "id");
    let expression = format!(
        "{{{{ token_intent: {intent} | json: '$.data.number' | append: 'x' | to_number }}}}"
    );
    let response = attack.request_with_use().json(&json!([expression])).send();
    response.expect_error(400, StatedDelivery::NotSent);
    let uses = attack.uses("use_token_intent", &intent);
    let [(outcome, message)] = &*uses else { panic!("{uses:?}") };
    assert_eq!(outcome, "used_in_rejected_call");
    assert!(message.contains(&attack.proxy.id), "{message}");
}

#[test]
fn rejected_call_is_recorded_if_reads_are_not_recorded() {
    let harness = ProxyHarness::start_with(|setup, _| {
        let trail = AuditTrail::new(ReadRecording::Off);
        trail.set_key(setup.vault.audit_trail.key().unwrap());
        setup.vault.audit_trail = Arc::new(trail);
    });
    let attack = OracleAttack::new(&harness, json!({}));
    let response = attack.request_with_use().json(&json!([attack.failing_guess()])).send();
    response.expect_error(400, StatedDelivery::NotSent);
    attack.expect_single_use("used_in_rejected_call");
}

/// Without a record, an attacker must not learn whether its expression failed.
#[test]
fn rejected_call_that_cannot_be_recorded_is_503_like_any_other_call() {
    let harness = ProxyHarness::start();
    let attack = OracleAttack::new(&harness, json!({}));
    attack.harness.server.engine.reject_read_log_writes();
    let failing = attack.request_with_use().json(&json!([attack.failing_guess()])).send();
    let successful =
        attack.request_with_use().json(&json!([attack.card.number_expression()])).send();
    let failing = failing.expect_error(503, StatedDelivery::NotSent);
    assert_eq!(failing, successful.expect_error(503, StatedDelivery::NotSent));
    assert_eq!(attack.host.request_count(), 0);
    attack.harness.server.engine.allow_read_log_writes();
    let response = attack.request_with_use().json(&json!([attack.failing_guess()])).send();
    response.expect_error(400, StatedDelivery::NotSent);
}

#[test]
fn rejection_before_a_token_is_loaded_is_no_use() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let invalid = json!([attack.card.number_expression(), "{{ unfinished |"]);
    attack.request_with_use().json(&invalid).send().expect_error(400, StatedDelivery::NotSent);
    let ephemeral = attack.harness.request("POST", "").api_key(&attack.api_key);
    let request = ephemeral.url(&attack.host.url("")).json(&json!([attack.failing_guess()]));
    request.send().expect_error(403, StatedDelivery::NotSent);
    assert!(attack.uses("use_token", &attack.card.id).is_empty());
}

/// An attacker learns something from each expression that fails, so their number is limited. A
/// backend is not locked out by an application that it does not trust.
#[test]
fn twenty_rejected_evaluations_of_a_token_lock_out_the_application() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let attack = OracleAttack::new(&harness, json!({}));
    for _ in 0..20 {
        let response = attack.request_with_use().json(&json!([attack.failing_guess()])).send();
        response.expect_error(400, StatedDelivery::NotSent);
    }
    let successful = json!([attack.card.number_expression()]);
    for body in [json!([attack.failing_guess()]), successful.clone()] {
        let response = attack.request_with_use().json(&body).send();
        let error = response.expect_error(429, StatedDelivery::NotSent);
        assert!(error["detail"].as_str().unwrap().contains("too many expressions"), "{error}");
        assert_eq!(response.header("retry-after"), None);
    }
    assert_eq!(attack.host.request_count(), 0);
    let other_card = attack.harness.create_card();
    attack
        .request_with_use()
        .json(&json!([other_card.number_expression()]))
        .send()
        .expect_answer(200);
    let backend = |key: &str| harness.request("POST", "").api_key(key).proxy_key(&attack.proxy.key);
    backend(&harness.keys.private).json(&successful).send().expect_answer(200);
    let rules = vec![grant("/", Mask, &[TokenRead, ProxyInvoke])];
    let other_application = harness.server.key_with_rules(&harness.keys.tenant, rules);
    backend(&other_application).json(&successful).send().expect_answer(200);
    harness.server.clock.advance(std::time::Duration::from_secs(24 * 60 * 60));
    attack.request_with_use().json(&successful).send().expect_answer(200);
}

/// A session that may use one card.
pub(super) fn create_session(harness: &ProxyHarness, card: &TestCard) -> String {
    create_session_of(harness, &harness.keys.public, card)
}

fn create_session_of(harness: &ProxyHarness, public: &str, card: &TestCard) -> String {
    let server = &harness.server;
    let created = server.post_empty(public, "/sessions").json();
    let rules = json!([{"description": "one card", "priority": 1, "transform": "mask",
        "conditions": [{"attribute": "id", "operator": "equals", "value": card.id}],
        "permissions": ["token:use"]}]);
    let body = json!({"nonce": created["nonce"], "rules": rules});
    assert_eq!(server.post(&harness.keys.private, "/sessions/authorize", &body).status, 204);
    text_field(&created, "session_key")
}

#[test]
fn rejected_evaluations_of_an_access_session_do_not_lock_out_its_backend() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let attack = OracleAttack::new(&harness, failing_transform());
    let session = create_session(&harness, &attack.card);
    let as_session =
        || attack.harness.request("POST", "").api_key(&session).proxy_key(&attack.proxy.key);
    for _ in 0..20 {
        let response = as_session().json(&transform_body(&attack.card, "x")).send();
        response.expect_error(400, StatedDelivery::NotSent);
    }
    let successful = transform_body(&attack.card, "1");
    as_session().json(&successful).send().expect_error(429, StatedDelivery::NotSent);
    attack.request_with_use().json(&successful).send().expect_answer(200);
}

/// The destination repeats the number, and a transform of the answer fails or not.
#[test]
fn failed_transform_of_an_answer_counts_as_a_rejected_evaluation() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let transform = json!([{"type": "append_header",
        "options": {"location": "X-Number", "value": "{{ res.a | to_number }}"}}]);
    let attack = OracleAttack::new(&harness, json!({"response_transforms": transform}));
    let text = attack.card.number_expression();
    for _ in 0..20 {
        let response = attack.request().json(&json!({"a": format!("x{text}")})).send();
        response.expect_error(502, StatedDelivery::Answered);
    }
    let response = attack.request().json(&json!({"a": text})).send();
    response.expect_error(429, StatedDelivery::NotSent);
}

/// A transform that fails on a text that is no number.
fn failing_transform() -> Value {
    json!({"request_transforms": [{"type": "append_header",
        "options": {"location": "X-Guess", "value": "{{ req.guess | to_number }}"}}]})
}

/// A request to a proxy with this transform.
fn transform_body(card: &TestCard, guess: &str) -> Value {
    json!({"guess": guess, "number": card.number_expression()})
}

/// A counter that equal data shared would tell whether a stored guess equals a hidden number.
#[test]
fn rejections_of_a_card_do_not_count_for_another_card_with_the_same_number() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let attack = OracleAttack::new(&harness, failing_transform());
    let mut body = card_body(&attack.card.number);
    body["deduplicate_token"] = json!(false);
    let guess = harness.server.create_token_ok(&harness.keys.private, &body);
    let guess = TestCard { id: text_field(&guess, "id"), number: attack.card.number.clone() };
    assert_ne!(guess.id, attack.card.id);
    let reject = |card: &TestCard| {
        let response = attack.request().json(&transform_body(card, "x")).send();
        response.expect_error(400, StatedDelivery::NotSent);
    };
    reject(&attack.card);
    for _ in 0..19 {
        reject(&guess);
    }
    attack.request().json(&transform_body(&guess, "1")).send().expect_answer(200);
}

/// A second public application gives a page no second budget.
#[test]
fn sessions_of_all_public_applications_share_the_budget_of_a_token() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let attack = OracleAttack::new(&harness, failing_transform());
    let body = json!({"name": "second", "type": "public", "permissions": ["token:create"]});
    let created = harness.server.post(&harness.keys.management, "/applications", &body);
    let public = text_field(&created.expect_status(201), "key");
    let sessions = [
        create_session(&harness, &attack.card),
        create_session_of(&harness, &public, &attack.card),
    ];
    for index in 0..20 {
        let session = &sessions[index % 2];
        let request = harness.request("POST", "").api_key(session).proxy_key(&attack.proxy.key);
        let response = request.json(&transform_body(&attack.card, "x")).send();
        response.expect_error(400, StatedDelivery::NotSent);
    }
    for session in &sessions {
        let request = harness.request("POST", "").api_key(session).proxy_key(&attack.proxy.key);
        let response = request.json(&transform_body(&attack.card, "1")).send();
        response.expect_error(429, StatedDelivery::NotSent);
    }
}
