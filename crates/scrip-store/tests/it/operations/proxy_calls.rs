//! Proxied calls on every engine: the right to use tokens, records before and after a call, and
//! repetitions with an idempotency key.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error, Vault,
    audit::{AuditTrail, LogKind, LogRecord, ReadRecording},
    idempotency::{CallContent, CallDelivery, CallResponse, IdempotencyClaim},
    operations::{
        claim_idempotency_key::RESPONSE_RETENTION,
        proxy_calls::{
            claim_proxy_call::{CallClaim, CallRejection, claim_proxy_call, end_rejected_claim},
            finish_proxy_call::{CallOutcome, finish_proxy_call},
            start_proxy_call::{CallDestination, CallSender, StartedCall, start_proxy_call},
            use_tokens::{CallReferences, TokenUse, UsedTokens, use_tokens},
        },
        reference_data::{
            DecryptedCallData, DetokenizeRenderers, Reference, ReferenceKind, ReferenceUse,
        },
    },
    policy::{Caller, DestinationChoice, Tenant, UseRight},
    token::NewToken,
    types::{Permission, Plaintext, Transform, error::Denial, id::TokenId},
};
use scrip_testing::{
    policy::{access_rule, access_with_rules},
    requests::{VISA, card, card_with_cvc, create, expect_denial, expect_invalid_field},
    vault_harness::{Engine, VaultHarness, containers},
};
use serde_json::json;

on_every_engine! {
    CallHarness;
    token_is_used_in_full_whatever_the_transform_of_the_rule
    ephemeral_proxy_needs_token_use_in_every_container_of_a_token
    pre_configured_proxy_accepts_proxy_invoke_in_some_containers_of_a_token
    token_of_another_tenant_has_no_data_for_a_call
    number_of_tokens_in_a_call_is_limited_by_the_quota
    cvc_is_loaded_only_for_an_expression_that_reaches_it
    call_is_recorded_before_it_is_sent_even_if_reads_are_not_recorded
    call_with_idempotency_key_is_recorded_with_its_key_in_the_audit_log
    repeated_call_is_rejected_while_the_first_one_is_in_flight
    repeated_call_is_rejected_as_maybe_sent_if_the_first_one_has_no_outcome
    call_that_was_not_sent_can_be_repeated
    answer_is_replayed_to_an_equal_call_only
    answer_that_is_too_large_is_not_stored
    answer_to_a_call_with_a_cvc_is_readable_only_until_the_cvc_expires
    answer_to_a_call_without_the_cvc_of_its_token_outlives_the_cvc
    replay_of_a_call_needs_the_right_to_use_its_tokens
    record_of_a_call_expires_after_its_retention
    second_node_cannot_start_a_call_with_the_same_key
    rejected_call_finds_the_call_of_another_node_with_the_same_key
}

const KEY: &[u8] = b"order-7";
const MINUTE: Duration = Duration::from_secs(60);
const CONTENT: CallContent<'static> = CallContent {
    method: "POST",
    destination: "https://api.example.com",
    path_and_query: "/charge",
    body: b"{}",
    encrypted: None,
};
const RENDERERS: DetokenizeRenderers = DetokenizeRenderers {
    token: |_| Plaintext::new(json!({"data": "token"})),
    intent: |_, data| data.unwrap_or_default(),
};

struct CallHarness {
    vault_harness: VaultHarness,
    tenant: Arc<Tenant>,
    owner: Caller,
    /// Has `token:use` everywhere, by a rule that redacts.
    caller: Caller,
}

fn use_rules(container: &str, permission: Permission) -> scrip_core::policy::AccessPolicy {
    access_with_rules([access_rule(container, Transform::Redact, &[permission])])
}

fn answer(body: &[u8]) -> CallOutcome {
    let headers = vec![("x-id".to_owned(), b"7".to_vec())];
    let response = Some(CallResponse { status: 402, headers, body: body.to_vec() });
    CallOutcome::Answered { status: 402, response }
}

impl CallHarness {
    async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let (tenant, owner) = harness.tenant_with_default_caller().await;
        let caller = harness.caller(&tenant, use_rules("/", Permission::TokenUse)).await;
        Self { vault_harness: harness, tenant, owner, caller }
    }

    fn vault(&self) -> &Vault {
        &self.vault_harness.vault
    }

    async fn create(&self, token: NewToken) -> TokenId {
        create(self.vault(), &self.owner, token).await.unwrap().token.id
    }

    async fn use_token(
        &self,
        caller: &Caller,
        right: UseRight,
        id: &TokenId,
        reads_cvc: bool,
    ) -> Result<TokenUse<Plaintext>, Error> {
        let reference = data_reference(id);
        let references = [ReferenceUse { reference: &reference, reads_cvc, filtered: &[] }];
        let call = CallReferences {
            references: &references,
            has_computed_header: false,
            destinations: DestinationChoice::Any,
        };
        use_tokens(self.vault(), caller, right, call, RENDERERS, None).await
    }

    async fn use_by_caller(&self, id: &TokenId, reads_cvc: bool) -> TokenUse<Plaintext> {
        let right = UseRight::PreConfiguredProxy;
        self.use_token(&self.caller, right, id, reads_cvc).await.unwrap()
    }

    async fn claim(&self) -> Result<CallClaim, CallRejection> {
        claim_proxy_call(self.vault(), &self.caller, KEY, CONTENT).await
    }

    async fn expect_claim(&self) -> IdempotencyClaim {
        match self.claim().await.unwrap() {
            CallClaim::Proceed(claim) => claim,
            CallClaim::Replay(response) => panic!("an answer is stored: {response:?}"),
        }
    }

    async fn expect_replay(&self) -> CallResponse {
        match self.claim().await.unwrap() {
            CallClaim::Replay(response) => response,
            CallClaim::Proceed(_) => panic!("no answer is stored"),
        }
    }

    /// Expects the rejection of an equal call. Its status is that of the first call.
    async fn expect_conflict(&self, expected: CallDelivery) {
        let CallRejection { error, delivery, answered_status } = self.claim().await.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
        assert_eq!(delivery, expected);
        assert_eq!(answered_status, (expected == CallDelivery::Answered).then_some(402));
    }

    async fn start(
        &self,
        used: &UsedTokens,
        claim: Option<IdempotencyClaim>,
    ) -> Result<StartedCall, Error> {
        let sender =
            CallSender::Caller { caller: &self.caller, right: UseRight::PreConfiguredProxy };
        let proxy = Some("2b1c7c11-8c0b-4c70-a1a5-0f1d2f6c7c11".to_owned());
        let destination =
            CallDestination { proxy, host: "api.example.com".to_owned(), method: "POST" };
        let describe = || panic!("the tenant has no webhook");
        start_proxy_call(self.vault(), sender, destination, used, claim, describe).await
    }

    /// A complete call with the idempotency key.
    async fn call(&self, used: &UsedTokens, outcome: CallOutcome) {
        let started = self.start(used, Some(self.expect_claim().await)).await.unwrap();
        finish_proxy_call(self.vault(), started, outcome).await.unwrap();
    }

    /// The records of proxied calls.
    async fn records(&self, log: LogKind) -> Vec<LogRecord> {
        let records = self.vault().store.list_records(log, self.tenant.id, 0, 1000).await.unwrap();
        let is_of_call =
            |it: &LogRecord| ["invoke_proxy", "use_token"].contains(&it.operation.as_str());
        records.into_iter().filter(is_of_call).collect()
    }
}

fn data_reference(id: &TokenId) -> Reference {
    Reference { kind: ReferenceKind::Data, id: id.as_str().to_owned() }
}

fn describe(record: &LogRecord) -> (&str, &str, Option<&str>) {
    (&record.operation, &record.outcome, record.detail.as_deref())
}

/// A call without encrypted data.
const NO_DATA: Option<Arc<DecryptedCallData<Plaintext>>> = None;

fn find_data<'a>(used: &'a TokenUse<Plaintext>, id: &TokenId) -> Option<&'a serde_json::Value> {
    used.data.find(&data_reference(id)).map(|it| it.read(Plaintext::expose))
}

async fn token_is_used_in_full_whatever_the_transform_of_the_rule(harness: CallHarness) {
    let id = harness.create(card(VISA)).await;
    let right = UseRight::EphemeralProxy;
    let used = harness.use_token(&harness.caller, right, &id, false).await.unwrap();
    assert_eq!(find_data(&used, &id), Some(&json!({"number": VISA})));
}

async fn ephemeral_proxy_needs_token_use_in_every_container_of_a_token(harness: CallHarness) {
    let token = |names: &[&str]| NewToken { containers: Some(containers(names)), ..card(VISA) };
    let in_both = harness.create(token(&["/a/", "/b/"])).await;
    let in_first = harness.create(token(&["/a/"])).await;
    let right = UseRight::EphemeralProxy;
    let rules = use_rules("/a/", Permission::TokenUse);
    let caller = harness.vault_harness.caller(&harness.tenant, rules).await;
    harness.use_token(&caller, right, &in_first, false).await.unwrap();
    let outcome = harness.use_token(&caller, right, &in_both, false).await;
    assert_eq!(expect_denial(outcome), Denial::NoRule(Permission::TokenUse));
    let rules = use_rules("/", Permission::ProxyInvoke);
    let caller = harness.vault_harness.caller(&harness.tenant, rules).await;
    let outcome = harness.use_token(&caller, right, &in_first, false).await;
    assert_eq!(expect_denial(outcome), Denial::NoRule(Permission::TokenUse));
}

async fn pre_configured_proxy_accepts_proxy_invoke_in_some_containers_of_a_token(
    harness: CallHarness,
) {
    let names = ["/a/", "/b/"];
    let id = harness.create(NewToken { containers: Some(containers(&names)), ..card(VISA) }).await;
    let rules = access_with_rules([
        access_rule("/a/", Transform::Mask, &[Permission::ProxyInvoke]),
        access_rule("/b/", Transform::Mask, &[Permission::TokenUse]),
    ]);
    let caller = harness.vault_harness.caller(&harness.tenant, rules).await;
    harness.use_token(&caller, UseRight::PreConfiguredProxy, &id, false).await.unwrap();
    let rules = use_rules("/a/", Permission::ProxyInvoke);
    let caller = harness.vault_harness.caller(&harness.tenant, rules).await;
    let outcome = harness.use_token(&caller, UseRight::PreConfiguredProxy, &id, false).await;
    assert_eq!(expect_denial(outcome), Denial::NoRule(Permission::ProxyInvoke));
    // The right to read is not a right to use.
    let outcome = harness.use_token(&harness.owner, UseRight::EphemeralProxy, &id, false).await;
    assert_eq!(expect_denial(outcome), Denial::NoRule(Permission::TokenUse));
}

async fn token_of_another_tenant_has_no_data_for_a_call(harness: CallHarness) {
    let id = harness.create(card(VISA)).await;
    let tenant = harness.vault_harness.default_tenant().await;
    let rules = use_rules("/", Permission::TokenUse);
    let stranger = harness.vault_harness.caller(&tenant, rules).await;
    let used = harness.use_token(&stranger, UseRight::EphemeralProxy, &id, true).await.unwrap();
    assert_eq!(find_data(&used, &id), None);
}

async fn number_of_tokens_in_a_call_is_limited_by_the_quota(harness: CallHarness) {
    let limit = harness.tenant.quotas.proxy_token_limit;
    let references: Vec<_> = (0..=limit)
        .map(|it| Reference { kind: ReferenceKind::Data, id: format!("token-{it}") })
        .collect();
    let uses =
        references.iter().map(|it| ReferenceUse { reference: it, reads_cvc: true, filtered: &[] });
    let mut uses: Vec<_> = uses.collect();
    let right = UseRight::EphemeralProxy;
    let call = CallReferences {
        references: &uses,
        has_computed_header: false,
        destinations: DestinationChoice::Any,
    };
    let outcome =
        use_tokens(harness.vault(), &harness.caller, right, call, RENDERERS, NO_DATA).await;
    assert_eq!(expect_invalid_field(outcome), "proxy_token_limit");
    uses.pop();
    // A token that is named twice counts once.
    uses.push(uses[0]);
    let call = CallReferences {
        references: &uses,
        has_computed_header: false,
        destinations: DestinationChoice::Any,
    };
    use_tokens(harness.vault(), &harness.caller, right, call, RENDERERS, NO_DATA).await.unwrap();
}

async fn cvc_is_loaded_only_for_an_expression_that_reaches_it(harness: CallHarness) {
    let id = harness.create(card_with_cvc(VISA, "123")).await;
    for (reads_cvc, expected) in
        [(false, json!({"number": VISA})), (true, json!({"number": VISA, "cvc": "123"}))]
    {
        let right = UseRight::EphemeralProxy;
        let used = harness.use_token(&harness.caller, right, &id, reads_cvc).await.unwrap();
        assert_eq!(find_data(&used, &id), Some(&expected));
        harness.start(&used.used, None).await.unwrap();
    }
    let outcomes: Vec<_> =
        harness.records(LogKind::Read).await.into_iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, ["used_in_call", "used_in_call_with_cvc"]);
}

async fn call_is_recorded_before_it_is_sent_even_if_reads_are_not_recorded(
    mut harness: CallHarness,
) {
    harness.vault_harness.vault.audit_trail = Arc::new(AuditTrail::new(ReadRecording::Off));
    let id = harness.create(card(VISA)).await;
    let used = harness.use_by_caller(&id, false).await;
    let started = harness.start(&used.used, None).await.unwrap();
    let without_tokens = harness.start(&UsedTokens::default(), None).await.unwrap();
    let proxy = "proxy 2b1c7c11-8c0b-4c70-a1a5-0f1d2f6c7c11";
    let detail = format!("POST api.example.com, {proxy}");
    let records = harness.records(LogKind::Read).await;
    let expected = [
        ("use_token", "used_in_call", Some(&*detail)),
        ("invoke_proxy", "call_started", Some(&*detail)),
    ];
    assert_eq!(records.iter().map(describe).collect::<Vec<_>>(), expected);
    assert_eq!(records[0].entity, id.as_str());
    assert_eq!(records[1].entity, "2b1c7c11-8c0b-4c70-a1a5-0f1d2f6c7c11");

    // Outcomes are queued.
    finish_proxy_call(harness.vault(), started, answer(b"no")).await.unwrap();
    finish_proxy_call(harness.vault(), without_tokens, CallOutcome::MaybeSent).await.unwrap();
    assert_eq!(harness.records(LogKind::Read).await.len(), 2);
    let queue = &harness.vault().outcome_queue;
    assert_eq!(queue.flush(&*harness.vault().store).await, 0);
    let records = harness.records(LogKind::Read).await;
    let answered = format!("POST api.example.com 402, {proxy}");
    let expected = [
        ("invoke_proxy", "answered", Some(&*answered)),
        ("invoke_proxy", "maybe_sent", Some(&*detail)),
    ];
    assert_eq!(records[2..].iter().map(describe).collect::<Vec<_>>(), expected);
}

async fn call_with_idempotency_key_is_recorded_with_its_key_in_the_audit_log(harness: CallHarness) {
    let id = harness.create(card(VISA)).await;
    let used = harness.use_by_caller(&id, false).await;
    let started = harness.start(&used.used, Some(harness.expect_claim().await)).await.unwrap();
    let outcomes = async || -> Vec<String> {
        harness.records(LogKind::Audit).await.into_iter().map(|it| it.outcome).collect()
    };
    assert_eq!(outcomes().await, ["used_in_call"]);
    finish_proxy_call(harness.vault(), started, answer(b"no")).await.unwrap();
    assert_eq!(outcomes().await, ["used_in_call", "answered"]);
    assert!(harness.records(LogKind::Read).await.is_empty());
}

async fn repeated_call_is_rejected_while_the_first_one_is_in_flight(harness: CallHarness) {
    let claim = harness.expect_claim().await;
    harness.expect_conflict(CallDelivery::MaybeSent).await;
    let started = harness.start(&UsedTokens::default(), Some(claim)).await.unwrap();
    harness.expect_conflict(CallDelivery::MaybeSent).await;
    drop(started);
}

async fn repeated_call_is_rejected_as_maybe_sent_if_the_first_one_has_no_outcome(
    harness: CallHarness,
) {
    // A process that stops drops the call without an outcome.
    let claim = harness.expect_claim().await;
    drop(harness.start(&UsedTokens::default(), Some(claim)).await.unwrap());
    for _ in 0..2 {
        harness.expect_conflict(CallDelivery::MaybeSent).await;
    }
}

async fn call_that_was_not_sent_can_be_repeated(harness: CallHarness) {
    for _ in 0..2 {
        harness.call(&UsedTokens::default(), CallOutcome::NotSent).await;
    }
    harness.call(&UsedTokens::default(), CallOutcome::MaybeSent).await;
    harness.expect_conflict(CallDelivery::MaybeSent).await;
}

async fn answer_is_replayed_to_an_equal_call_only(harness: CallHarness) {
    harness.call(&UsedTokens::default(), answer(b"declined")).await;
    for _ in 0..2 {
        let response = harness.expect_replay().await;
        assert_eq!((response.status, response.body.as_slice()), (402, b"declined".as_slice()));
        assert_eq!(response.headers, [("x-id".to_owned(), b"7".to_vec())]);
    }
    let replays = harness.records(LogKind::Read).await;
    assert_eq!(replays.iter().filter(|it| it.outcome == "replayed").count(), 2);
    let other_calls = [
        CallContent { method: "PUT", ..CONTENT },
        CallContent { destination: "https://other.example.com", ..CONTENT },
        CallContent { path_and_query: "/refund", ..CONTENT },
        CallContent { body: b"{\"amount\": 1}", ..CONTENT },
    ];
    for content in other_calls {
        let outcome = claim_proxy_call(harness.vault(), &harness.caller, KEY, content).await;
        let CallRejection { error, delivery, answered_status } = outcome.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
        assert_eq!((delivery, answered_status), (CallDelivery::Answered, None));
    }
}

async fn answer_that_is_too_large_is_not_stored(harness: CallHarness) {
    let body = vec![b'x'; CallResponse::BODY_BYTES_MAX + 1];
    harness.call(&UsedTokens::default(), answer(&body)).await;
    harness.expect_conflict(CallDelivery::Answered).await;
}

async fn answer_to_a_call_with_a_cvc_is_readable_only_until_the_cvc_expires(harness: CallHarness) {
    let id = harness.create(card_with_cvc(VISA, "123")).await;
    let used = harness.use_by_caller(&id, true).await;
    harness.call(&used.used, answer(b"echo 123")).await;
    harness.vault_harness.clock.advance(60 * MINUTE - Duration::from_millis(1));
    assert_eq!(harness.expect_replay().await.body, b"echo 123");
    // A node without the epoch key cannot read the answer.
    let restarted = harness.vault_harness.restart();
    let outcome = claim_proxy_call(&restarted, &harness.caller, KEY, CONTENT).await;
    assert_eq!(outcome.unwrap_err().delivery, CallDelivery::Answered);
    harness.vault_harness.clock.advance(Duration::from_millis(1));
    harness.expect_conflict(CallDelivery::Answered).await;
}

async fn answer_to_a_call_without_the_cvc_of_its_token_outlives_the_cvc(harness: CallHarness) {
    let id = harness.create(card_with_cvc(VISA, "123")).await;
    let used = harness.use_by_caller(&id, false).await;
    harness.call(&used.used, answer(b"declined")).await;
    harness.vault_harness.clock.advance(120 * MINUTE);
    assert_eq!(harness.expect_replay().await.body, b"declined");
}

async fn replay_of_a_call_needs_the_right_to_use_its_tokens(harness: CallHarness) {
    let token = NewToken { containers: Some(containers(&["/a/"])), ..card(VISA) };
    let id = harness.create(token).await;
    let used = harness.use_by_caller(&id, false).await;
    harness.call(&used.used, answer(b"declined")).await;
    let application = harness.caller.application();
    let claim_with = async |container| {
        let rules = use_rules(container, Permission::TokenUse);
        let caller = harness.vault_harness.caller_with_access(&harness.tenant, application, rules);
        claim_proxy_call(harness.vault(), &caller, KEY, CONTENT).await
    };
    assert!(matches!(claim_with("/a/").await, Ok(CallClaim::Replay(_))));
    let CallRejection { error, delivery, answered_status } = claim_with("/b/").await.unwrap_err();
    assert!(matches!(error, Error::Forbidden(_)), "{error:?}");
    assert_eq!((delivery, answered_status), (CallDelivery::Answered, None));
}

async fn record_of_a_call_expires_after_its_retention(harness: CallHarness) {
    harness.call(&UsedTokens::default(), CallOutcome::MaybeSent).await;
    harness.vault_harness.clock.advance(RESPONSE_RETENTION - Duration::from_millis(1));
    harness.expect_conflict(CallDelivery::MaybeSent).await;
    harness.vault_harness.clock.advance(Duration::from_millis(1));
    harness.call(&UsedTokens::default(), answer(b"ok")).await;
    assert_eq!(harness.expect_replay().await.body, b"ok");
    harness.vault_harness.clock.advance(RESPONSE_RETENTION);
    let now = harness.vault().clock.now().minus(RESPONSE_RETENTION);
    assert_eq!(harness.vault().store.delete_expired_responses(now).await.unwrap(), 1);
}

async fn second_node_cannot_start_a_call_with_the_same_key(harness: CallHarness) {
    let claim = harness.expect_claim().await;
    // Nodes do not share claims in memory.
    let other_claim = IdempotencyClaim::new(claim.digests.key, Box::new(()));
    let started = harness.start(&UsedTokens::default(), Some(claim)).await.unwrap();
    let second = harness.start(&UsedTokens::default(), Some(other_claim)).await;
    assert!(matches!(second, Err(Error::Conflict { .. })), "{second:?}");
    finish_proxy_call(harness.vault(), started, answer(b"ok")).await.unwrap();
    // The second start wrote no entry.
    let records = harness.records(LogKind::Audit).await;
    let outcomes: Vec<_> = records.iter().map(|it| it.outcome.as_str()).collect();
    assert_eq!(outcomes, ["call_started", "answered"]);
}

async fn rejected_call_finds_the_call_of_another_node_with_the_same_key(harness: CallHarness) {
    let end = async |claim| end_rejected_claim(harness.vault(), &harness.caller, claim).await;
    assert_eq!(end(harness.expect_claim().await).await, CallDelivery::NotSent);
    let claim = harness.expect_claim().await;
    // Nodes do not share claims in memory.
    let other_claim = IdempotencyClaim::new(claim.digests.key, Box::new(()));
    let started = harness.start(&UsedTokens::default(), Some(other_claim)).await.unwrap();
    assert_eq!(end(claim).await, CallDelivery::MaybeSent);
    // Without its record, the call of the other node can be repeated.
    finish_proxy_call(harness.vault(), started, CallOutcome::NotSent).await.unwrap();
    let claim = harness.expect_claim().await;
    assert_eq!(end(claim).await, CallDelivery::NotSent);
}
