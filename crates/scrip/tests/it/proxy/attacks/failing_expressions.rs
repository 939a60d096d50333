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
    harness::server::{card_body, text_field, unique_card_number},
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
        let key = |permission| harness.key_with_rule("/", Mask, &[TokenRead, permission]);
        let (api_key, use_key) = (key(ProxyInvoke), key(TokenUse));
        let card = harness.create_card();
        Self { harness, host, proxy, card, api_key, use_key }
    }

    /// The expressions of a key that may send the data anywhere are evaluated.
    pub(super) fn request_with_use(&self) -> ProxyRequest {
        self.harness.post_as(&self.use_key, &self.proxy)
    }

    pub(super) fn request(&self) -> ProxyRequest {
        self.harness.post_as(&self.api_key, &self.proxy)
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
        request.json(&json!({"deep": {"path": expression}})).send().expect_not_sent(400)
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
    fn expect_single_use(&self, case: &str, expected: &str) {
        let uses = self.uses("use_token", &self.card.id);
        assert_eq!(uses.len(), 1, "{case}: {uses:?}");
        let (outcome, message) = &uses[0];
        assert_eq!(outcome, expected, "{case}");
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
            response.expect_not_sent(400);
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
    let first = first.expect_not_sent(400);
    let second = attack.request_with_use().json(&json!([other, failing])).send();
    assert_eq!(first, second.expect_not_sent(400));
    assert_eq!(first["errors"], json!({"proxy": ["not_sent"]}));
    assert_eq!(first, attack.expected_error());
    let header = "{{ proxy.request.body | to_number }}";
    let request = attack.request_with_use().header("X-Guess", header);
    let in_header = request.json(&json!([attack.card.number_expression()])).send();
    assert_eq!(first, in_header.expect_not_sent(400));
    let request = attack.harness.post_to(&attack.proxy);
    let detailed = request.json(&json!([other, failing])).send().expect_not_sent(400);
    assert!(detailed["errors"]["body[1]"].is_array(), "{detailed}");
}

#[test]
fn errors_that_do_not_depend_on_the_data_stay_detailed() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let body = json!([attack.failing_guess(), "{{ no-such-token }}"]);
    let unknown = attack.request_with_use().json(&body).send().expect_not_sent(400);
    assert!(unknown["errors"]["body[1]"].is_array(), "{unknown}");
    let request =
        attack.request_with_use().header("X-Guess", "{{ proxy.request.body | unknown_filter }}");
    let invalid = request.json(&json!([attack.card.number_expression()])).send();
    let invalid = invalid.expect_not_sent(400);
    assert!(invalid["errors"]["headers.x-guess"].is_array(), "{invalid}");
}

#[test]
fn rejected_call_is_recorded_as_a_use_of_its_card() {
    type BuildCall = fn(&OracleAttack<'_>, ProxyRequest) -> ProxyRequest;
    let cases: [(&str, BuildCall, &str); 5] = [
        (
            "failing expression in the body",
            |attack, request| request.json(&json!([attack.failing_guess()])),
            "used_in_rejected_call",
        ),
        (
            "failing expression that reaches the CVC",
            |attack, request| {
                let cvc = format!("{} | json: '$.cvc' | replace: '1', 'x'", attack.card.id);
                request.json(&json!([format!("{{{{ {cvc} | to_number }}}}")]))
            },
            "used_in_rejected_call_with_cvc",
        ),
        (
            "call with an idempotency key",
            |attack, request| {
                request.idempotency_key(&new_key()).json(&json!([attack.failing_guess()]))
            },
            "used_in_rejected_call",
        ),
        (
            "failing header expression over the body",
            |attack, request| {
                let request = request.header("X-Guess", "{{ proxy.request.body | to_number }}");
                request.json(&json!([attack.card.number_expression()]))
            },
            "used_in_rejected_call",
        ),
        (
            "token next to an unknown one",
            |attack, request| {
                let number = attack.card.number_expression();
                request.json(&json!([number, "{{ no-such-token }}"]))
            },
            "used_in_rejected_call",
        ),
    ];
    for (name, build, outcome) in cases {
        let attack = OracleAttack::new(&PROXY, json!({}));
        let response = build(&attack, attack.request_with_use()).send();
        assert_eq!(response.status(), 400, "{name}: {}", response.text());
        response.expect_not_sent(400);
        attack.expect_single_use(name, outcome);
    }
}

#[test]
fn failing_request_transform_is_recorded() {
    let attack = OracleAttack::new(&PROXY, failing_transform());
    let request = attack.request_with_use().json(&transform_body(&attack.card, "x"));
    request.send().expect_not_sent(400);
    attack.expect_single_use("failing request transform", "used_in_rejected_call");
}

/// The body exceeds its limit only because of the data in it.
#[test]
fn call_that_becomes_too_large_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let expression = format!("{{{{ {} | json: '$.number' | pad_left: 60000 }}}}", attack.card.id);
    let body: Value = (0..20).map(|_| expression.clone()).collect();
    let response = attack.request_with_use().json(&body).send();
    assert_eq!(response.expect_not_sent(400), attack.expected_error());
    attack.expect_single_use("too large call", "used_in_rejected_call");
}

#[test]
fn token_intent_in_a_rejected_call_is_recorded() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let ProxyHarness { server, keys, .. } = attack.harness;
    let intent = server.create_intent_id(&keys.private, &card_body(&unique_card_number()));
    let expression = format!(
        "{{{{ token_intent: {intent} | json: '$.data.number' | append: 'x' | to_number }}}}"
    );
    attack.request_with_use().json(&json!([expression])).send().expect_not_sent(400);
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
    attack.request_with_use().json(&json!([attack.failing_guess()])).send().expect_not_sent(400);
    attack.expect_single_use("reads are not recorded", "used_in_rejected_call");
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
    let failing = failing.expect_not_sent(503);
    assert_eq!(failing, successful.expect_not_sent(503));
    assert_eq!(attack.host.request_count(), 0);
    attack.harness.server.engine.allow_read_log_writes();
    attack.request_with_use().json(&json!([attack.failing_guess()])).send().expect_not_sent(400);
}

#[test]
fn rejection_before_a_token_is_loaded_is_no_use() {
    let attack = OracleAttack::new(&PROXY, json!({}));
    let invalid = json!([attack.card.number_expression(), "{{ unfinished |"]);
    attack.request_with_use().json(&invalid).send().expect_not_sent(400);
    let ephemeral = attack.harness.request("POST", "").api_key(&attack.api_key);
    let request = ephemeral.url(&attack.host.url("")).json(&json!([attack.failing_guess()]));
    request.send().expect_not_sent(403);
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
        response.expect_not_sent(400);
    }
    let successful = json!([attack.card.number_expression()]);
    for body in [json!([attack.failing_guess()]), successful.clone()] {
        let response = attack.request_with_use().json(&body).send();
        let error = response.expect_not_sent(429);
        assert!(error["detail"].as_str().unwrap().contains("too many expressions"), "{error}");
        assert_eq!(response.header("retry-after"), None);
    }
    assert_eq!(attack.host.request_count(), 0);
    let other_card = attack.harness.create_card();
    let other_number = json!([other_card.number_expression()]);
    attack.request_with_use().json(&other_number).send().expect_answer(200);
    let backend = |key: &str| harness.post_as(key, &attack.proxy);
    backend(&harness.keys.private).json(&successful).send().expect_answer(200);
    let other_application = harness.key_with_rule("/", Mask, &[TokenRead, ProxyInvoke]);
    backend(&other_application).json(&successful).send().expect_answer(200);
    harness.server.clock.advance(std::time::Duration::from_secs(24 * 60 * 60));
    attack.request_with_use().json(&successful).send().expect_answer(200);
}

/// A session that may use one card.
pub(super) fn create_session(harness: &ProxyHarness, card: &TestCard) -> String {
    harness.create_card_session(&harness.keys.public, card)
}

#[test]
fn rejected_evaluations_of_an_access_session_do_not_lock_out_its_backend() {
    let harness = ProxyHarness::start_with_kind(TenantKind::Production, |_, _| ());
    let attack = OracleAttack::new(&harness, failing_transform());
    let session = create_session(&harness, &attack.card);
    let as_session = || attack.harness.post_as(&session, &attack.proxy);
    for _ in 0..20 {
        as_session().json(&transform_body(&attack.card, "x")).send().expect_not_sent(400);
    }
    let successful = transform_body(&attack.card, "1");
    as_session().json(&successful).send().expect_not_sent(429);
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
    attack.request().json(&json!({"a": text})).send().expect_not_sent(429);
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
        attack.request().json(&transform_body(card, "x")).send().expect_not_sent(400);
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
    let (management, permissions) = (&harness.keys.management, ["token:create"]);
    let second = json!({"permissions": permissions});
    let second = harness.server.create_application(management, "public", &second);
    let sessions =
        [&harness.keys.public, &second.key].map(|it| harness.create_card_session(it, &attack.card));
    for index in 0..20 {
        let session = &sessions[index % 2];
        let request = harness.post_as(session, &attack.proxy);
        request.json(&transform_body(&attack.card, "x")).send().expect_not_sent(400);
    }
    for session in &sessions {
        let request = harness.post_as(session, &attack.proxy);
        request.json(&transform_body(&attack.card, "1")).send().expect_not_sent(429);
    }
}
