//! Attackers that use up the time or the memory of the server: by the expressions of masks, and by
//! large answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use scrip_api::app::body_memory::BodyMemory;
use scrip_core::{
    operations::proxies::update_proxy::update_proxy,
    policy::{
        LookupPermit, PolicyPermit,
        proxy::{ProxyDetails, ProxyDraft, TransformList},
    },
    store::Store,
    token_batch::{BatchOutcome, TokenBatch},
    types::{StoreFuture, id::ProxyId},
};
use scrip_testing::{
    destination::behavior::DestinationBehavior,
    faults::intercepted_store::{InterceptedStore, Interceptor},
};
use serde_json::{Value, json};

use crate::proxy::{
    harness::{CreatedProxy, PROXY, ProxyHarness, StatedDelivery, proxy_body},
    idempotency::new_key,
};

fn mask(expression: &str) -> Value {
    json!({"type": "mask", "matcher": "regex", "expression": expression, "replacement": "X"})
}

#[test]
fn mask_expression_with_too_many_steps_is_rejected() {
    let transforms = json!({"response_transforms": [mask("^([ab]*a[ab]{1900})")]});
    let body = proxy_body("https://provider.example", transforms);
    let error = PROXY.server.post(&PROXY.keys.management, "/proxies", &body).expect_status(400);
    let rule = error["errors"]["response_transforms[0].expression"][0].as_str().unwrap();
    assert!(rule.contains("256"), "{error}");
}

/// Stores transforms without a check, like an earlier version with other limits.
fn store_response_transforms(proxy: &CreatedProxy, transforms: Value) {
    let (app, runtime) = (&PROXY.server.app, &PROXY.server.runtime);
    let response_transforms: TransformList =
        serde_json::from_value(json!({"sources": transforms})).unwrap();
    let id = ProxyId::parse(&proxy.id).unwrap();
    let directory = app.directory.load_full().unwrap();
    let tenant = directory.tenant(PROXY.keys.tenant.id).unwrap();
    let details = ProxyDetails::open(&tenant.keys, (*tenant.proxies[&id]).clone()).unwrap();
    let draft = ProxyDraft { response_transforms, ..details.draft() };
    // Transforms that the proxy already has are not compiled again.
    let draft = draft.clone().compile(Some(&draft)).unwrap();
    let permit = PolicyPermit::for_operator(Arc::clone(tenant));
    runtime.block_on(async {
        update_proxy(&app.vault, permit, id, draft, None).await.unwrap();
        app.reload().await.unwrap();
    });
}

#[test]
fn call_through_a_stored_mask_with_too_many_steps_is_422_and_nothing_is_sent() {
    let host = PROXY.destinations.host(&[]);
    let proxy = PROXY.create_proxy_to(&host, json!({}));
    let large = mask("^([ab]*a[ab]{1900})");
    store_response_transforms(&proxy, json!([large]));
    for key in [None, Some(new_key())] {
        let request = PROXY.post_to(&proxy).json(&json!({}));
        let request = key.iter().fold(request, |it, key| it.idempotency_key(key));
        let error = request.send().expect_not_sent(422);
        assert!(error["detail"].as_str().unwrap().contains("256"), "{error}");
    }
    assert_eq!(host.request_count(), 0);
    // Its administrator can read and repair the proxy.
    let (management, path) = (&PROXY.keys.management, format!("/proxies/{}", proxy.id));
    let stored = PROXY.server.get_path(management, &path).expect_status(200);
    assert_eq!(stored["response_transforms"][0]["expression"], large["expression"]);
    let repair = json!({"response_transforms": [mask("(a)")]});
    assert_eq!(PROXY.server.patch(management, &path, &repair).status, 204);
    PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
}

#[test]
fn mask_that_needs_too_much_work_for_an_answer_is_502_after_the_answer() {
    let host = PROXY.destinations.host(&[DestinationBehavior::text(200, &"a".repeat(1_000_000))]);
    let transforms = json!([mask("^([ab]*a[ab]{100})")]);
    let proxy = PROXY.create_proxy_to(&host, json!({"response_transforms": transforms}));
    let response = PROXY.post_to(&proxy).json(&json!({})).send();
    let error = response.expect_error(502, StatedDelivery::Answered);
    assert!(error["detail"].as_str().unwrap().contains("too much work"), "{error}");
    let typical = json!([mask("([0-9]{9,15})[0-9]{4}")]);
    let proxy = PROXY.create_proxy_to(&host, json!({"response_transforms": typical}));
    PROXY.post_to(&proxy).json(&json!({})).send().expect_answer(200);
}

/// Memory for 64 KiB of bodies.
fn start_with_little_memory() -> ProxyHarness {
    ProxyHarness::start_with(|setup, _| setup.memory.bodies = BodyMemory::new(64 * 1024, 1))
}

#[test]
fn answer_for_transforms_without_free_memory_is_503_after_the_answer() {
    let harness = start_with_little_memory();
    let host = harness.destinations.host(&[DestinationBehavior::text(200, &"a".repeat(200_000))]);
    let attributes = json!({"response_transforms": [mask("(b)")]});
    let proxy = harness.create_proxy_to(&host, attributes);
    let response = harness.post_to(&proxy).json(&json!({})).send();
    response.expect_error(503, StatedDelivery::Answered);
    assert_eq!(response.destination_status(), Some(200));
    assert_eq!(harness.server.app.memory.bodies.free_bytes(), 64 * 1024);
    host.set_behaviors(&[DestinationBehavior::text(200, "bab")]);
    let response = harness.post_to(&proxy).json(&json!({})).send().expect_answer(200);
    assert_eq!(response.text(), "XaX");
}

/// Such an answer is passed on while it arrives.
#[test]
fn answer_without_transforms_needs_no_free_memory() {
    let harness = start_with_little_memory();
    let answer = "a".repeat(64_000);
    let host = harness.destinations.host(&[DestinationBehavior::text(200, &answer)]);
    let proxy = harness.create_proxy_to(&host, json!({}));
    let body = "x".repeat(3_000);
    let plain = harness.post_to(&proxy).body("text/plain", body.as_str()).send();
    assert_eq!(plain.expect_answer(200).text(), answer);
    let key = new_key();
    let send = || {
        let request = harness.post_to(&proxy).idempotency_key(&key);
        request.body("text/plain", body.as_str()).send()
    };
    assert_eq!(send().expect_answer(200).text(), answer);
    // The answer could not be stored.
    send().expect_error(409, StatedDelivery::Answered);
    assert_eq!(host.request_count(), 2);
}

/// Tokens are written after this time.
struct SlowTokens {
    delay: Duration,
    is_reached: Arc<AtomicBool>,
}

impl Interceptor for SlowTokens {
    fn write_tokens<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        lookup: LookupPermit,
        batch: TokenBatch,
    ) -> StoreFuture<'a, BatchOutcome> {
        Box::pin(async move {
            self.is_reached.store(true, SeqCst);
            tokio::time::sleep(self.delay).await;
            engine.write_tokens(lookup, batch).await
        })
    }
}

/// The delay of the first transform is the whole time limit of the call, so the second one cannot
/// start in time.
#[test]
fn time_limit_between_transforms_of_an_answer_is_408_after_the_answer() {
    // A busy machine may need more than a second for the answer.
    let is_tested = [1, 5, 25].into_iter().any(|seconds| {
        let is_reached = Arc::new(AtomicBool::new(false));
        let harness = ProxyHarness::start_with(|setup, _| {
            let (engine, delay) = (Arc::clone(&setup.vault.store), Duration::from_secs(seconds));
            let interceptor = SlowTokens { delay, is_reached: Arc::clone(&is_reached) };
            setup.vault.store = Arc::new(InterceptedStore { engine, interceptor });
        });
        let application = harness.create_application(&json!({"permissions": ["token:create"]})).id;
        let tokenize = json!({"type": "tokenize", "options": {"token": {
            "type": "token", "data": "{{ res.secret }}"}}});
        let attributes = json!({"timeout": seconds, "application": {"id": application},
            "response_transforms": [tokenize, mask("(shown)")]});
        let answer = DestinationBehavior::json(200, &json!({"secret": "shown"}));
        let proxy = harness.create_proxy_to(&harness.destinations.host(&[answer]), attributes);
        let response = harness.post_to(&proxy).json(&json!({})).send();
        if is_reached.load(SeqCst) {
            response.expect_error(408, StatedDelivery::Answered);
            assert_eq!(response.destination_status(), Some(200));
            assert!(!response.text().contains("shown"), "{}", response.text());
        }
        is_reached.load(SeqCst)
    });
    assert!(is_tested, "no answer arrived within its time limit");
}

/// The parse of the body has a slot, and the evaluation of the template inside of it needs one too.
#[test]
fn large_message_that_a_template_reads_does_not_wait_for_its_own_slot() {
    let text = "a".repeat(450_000);
    let answer = DestinationBehavior::json(200, &json!({"x": "b".repeat(450_000)}));
    let host = PROXY.destinations.host(&[answer]);
    let append = |value: &str| json!([{"type": "append_json", "options": {"location": "$.y", "value": value}}]);
    let attributes = json!({"require_auth": false, "request_transforms": append("{{ req.x }}"),
        "response_transforms": append("{{ res.x }}")});
    let proxy = PROXY.create_proxy_to(&host, attributes);
    let response = PROXY.post_keyless(&proxy).json(&json!({"x": text})).send().expect_answer(200);
    assert!(response.text().len() > 900_000);
    assert!(host.last_request().body.len() > 900_000);
}
