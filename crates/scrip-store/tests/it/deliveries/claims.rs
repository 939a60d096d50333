//! Claims and results of attempts, lists and replays, on every engine.

use std::time::Duration;

use scrip_core::{
    Timestamp,
    audit::LogKind,
    change::CommitExtras,
    events::{
        AttemptResult, ClaimedDelivery, DeliveryChange, DeliveryProgress, DeliveryState,
        NewDelivery, WebhookKey,
    },
    store::deliveries::{DeliveryClaim, DeliveryReplay, ReplayedDeliveries},
    types::{Operation, id::WebhookId},
};
use scrip_testing::{
    store_harness::{StoreHarness, deliveries::event_id},
    vault_harness::Engine,
};
use uuid::Uuid;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const LEASE: Duration = Duration::from_secs(30);

on_every_engine! {
    StoreHarness;
    claim_returns_the_delivery_that_is_due_longest_first
    claimed_delivery_is_not_claimed_again_before_the_lease_ends
    result_of_an_earlier_claim_is_not_stored
    results_change_state_and_next_attempt
    postponed_attempt_is_not_counted
    due_webhooks_of_all_tenants_are_listed
    list_continues_before_an_event
    success_is_found_from_its_time_on
    replay_repeats_finished_deliveries_in_steps
    replayed_delivery_is_pending_since_the_replay
    signing_key_is_stored_once
}

/// Writes deliveries with an audit record.
pub(crate) async fn insert(harness: &StoreHarness, deliveries: Vec<NewDelivery>) {
    let extras = build_extras(harness, deliveries);
    harness.store().insert_deliveries(harness.policy_permit(), extras).await.unwrap();
}

fn build_extras(harness: &StoreHarness, deliveries: Vec<NewDelivery>) -> CommitExtras {
    let audit = harness.audit(Operation::TestWebhook);
    CommitExtras { audit, entity: "sample".to_owned(), idempotency: None, deliveries }
}

pub(crate) async fn claim(harness: &StoreHarness, deliveries_max: usize) -> Vec<ClaimedDelivery> {
    let now = harness.now();
    let claim = DeliveryClaim { now, lease_until: now.plus(LEASE), deliveries_max };
    harness.store().claim_deliveries(harness.webhook_key(), claim).await.unwrap()
}

pub(crate) fn numbers(claimed: &[ClaimedDelivery]) -> Vec<u8> {
    claimed.iter().map(|it| it.event.0.as_bytes()[15]).collect()
}

pub(crate) fn result(
    harness: &StoreHarness,
    claimed: &ClaimedDelivery,
    change: DeliveryChange,
) -> AttemptResult {
    let attempts = claimed.progress.attempts;
    let (status, error) = (Some(500), Some("too slow".to_owned()));
    AttemptResult { event: claimed.event, attempts, change, at: harness.now(), status, error }
}

pub(crate) async fn finish(
    harness: &StoreHarness,
    claimed: &ClaimedDelivery,
    change: DeliveryChange,
) -> usize {
    let results = vec![result(harness, claimed, change)];
    harness.store().finish_deliveries(claimed.key, results).await.unwrap()
}

async fn claim_returns_the_delivery_that_is_due_longest_first(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(2), harness.new_delivery(1)]).await;
    harness.advance(SECOND);
    insert(&harness, vec![harness.new_delivery(0)]).await;
    assert_eq!(numbers(&claim(&harness, 2).await), [1, 2]);
    let claimed = claim(&harness, 9).await;
    assert_eq!(numbers(&claimed), [0]);
    let NewDelivery { key, event, event_type, occurred_at, body } = harness.new_delivery(0);
    let progress = DeliveryProgress { attempts: 1, first_attempt_at: harness.now() };
    let event_type = event_type.to_owned();
    let expected = ClaimedDelivery { key, event, event_type, occurred_at, progress, body };
    assert_eq!(claimed, [expected]);
    // A retry that is due earlier comes before a retry that is due later.
    let (first, second) = (harness.now().plus(SECOND), harness.now().plus(2 * SECOND));
    finish(&harness, &claimed[0], DeliveryChange::RetryAt(first)).await;
    harness.advance(LEASE);
    let claimed = claim(&harness, 9).await;
    assert_eq!(numbers(&claimed), [0, 1, 2]);
    finish(&harness, &claimed[0], DeliveryChange::RetryAt(second)).await;
    finish(&harness, &claimed[2], DeliveryChange::RetryAt(first)).await;
    assert_eq!(numbers(&claim(&harness, 9).await), [2, 0]);
}

async fn claimed_delivery_is_not_claimed_again_before_the_lease_ends(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let first_attempt_at = harness.now();
    assert_eq!(claim(&harness, 9).await.len(), 1);
    harness.advance(LEASE - Duration::from_millis(1));
    assert_eq!(claim(&harness, 9).await, []);
    assert_eq!(harness.store().list_due_webhooks(harness.now()).await.unwrap(), []);
    harness.advance(Duration::from_millis(1));
    let claimed = claim(&harness, 9).await;
    let progress = DeliveryProgress { attempts: 2, first_attempt_at };
    assert_eq!(claimed.iter().map(|it| it.progress).collect::<Vec<_>>(), [progress]);
}

async fn result_of_an_earlier_claim_is_not_stored(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let earlier = claim(&harness, 1).await.remove(0);
    harness.advance(LEASE);
    let current = claim(&harness, 1).await.remove(0);
    assert_eq!(finish(&harness, &earlier, DeliveryChange::Exhaust).await, 0);
    assert_eq!(harness.list_deliveries().await[0].state, DeliveryState::Pending);
    assert_eq!(finish(&harness, &current, DeliveryChange::Deliver).await, 1);
    // The delivery is finished.
    assert_eq!(finish(&harness, &current, DeliveryChange::Exhaust).await, 0);
    assert_eq!(harness.list_deliveries().await[0].state, DeliveryState::Delivered);
    // A webhook or a tenant with the same event has its own delivery.
    let webhook = WebhookId(Uuid::from_bytes([1; 16]));
    let other = ClaimedDelivery { key: WebhookKey { webhook, ..current.key }, ..current };
    assert_eq!(finish(&harness, &other, DeliveryChange::Exhaust).await, 0);
}

async fn results_change_state_and_next_attempt(harness: StoreHarness) {
    insert(&harness, (1..=3).map(|it| harness.new_delivery(it)).collect()).await;
    let claimed = claim(&harness, 9).await;
    harness.advance(SECOND);
    let retry_at = harness.now().plus(LEASE);
    let changes =
        [DeliveryChange::Deliver, DeliveryChange::RetryAt(retry_at), DeliveryChange::Exhaust];
    let results = claimed.iter().zip(changes).map(|(it, change)| result(&harness, it, change));
    let mut results: Vec<_> = results.collect();
    (results[0].status, results[0].error) = (Some(204), None);
    (results[2].status, results[2].error) = (None, Some("closed".to_owned()));
    let stored = harness.store().finish_deliveries(harness.webhook_key(), results).await;
    assert_eq!(stored.unwrap(), 3);
    let deliveries = harness.list_deliveries().await;
    let states: Vec<_> = deliveries.iter().map(|it| (it.state, it.next_attempt_at)).collect();
    let (delivered, exhausted) = (DeliveryState::Delivered, DeliveryState::Exhausted);
    let expected = [(delivered, None), (DeliveryState::Pending, Some(retry_at)), (exhausted, None)];
    assert_eq!(states, expected);
    let outcomes: Vec<_> =
        deliveries.iter().map(|it| (it.last_status, it.last_error.as_deref())).collect();
    assert_eq!(
        outcomes,
        [(Some(204), None), (Some(500), Some("too slow")), (None, Some("closed"))]
    );
    assert!(deliveries.iter().all(|it| it.last_attempt_at == Some(harness.now())));
    assert!(deliveries.iter().all(|it| it.attempts == 1));
    let (count, oldest) = harness.store().count_pending_deliveries().await.unwrap();
    assert_eq!((count, oldest), (1, Some(harness.now().minus(SECOND))));
}

async fn postponed_attempt_is_not_counted(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let claimed = claim(&harness, 9).await.remove(0);
    let later = harness.now().plus(SECOND);
    assert_eq!(finish(&harness, &claimed, DeliveryChange::PostponeTo(later)).await, 1);
    let delivery = harness.list_deliveries().await.remove(0);
    let found = (delivery.attempts, delivery.last_attempt_at, delivery.last_status);
    assert_eq!(found, (0, None, None));
    assert_eq!(delivery.next_attempt_at, Some(later));
    harness.advance(SECOND);
    // The first attempt is the first one that was sent.
    let claimed = claim(&harness, 9).await.remove(0);
    assert_eq!(claimed.progress.first_attempt_at, harness.now());
    finish(&harness, &claimed, DeliveryChange::RetryAt(harness.now())).await;
    let claimed = claim(&harness, 9).await.remove(0);
    let first_attempt_at = harness.now();
    harness.advance(SECOND);
    finish(&harness, &claimed, DeliveryChange::PostponeTo(harness.now())).await;
    let progress = DeliveryProgress { attempts: 2, first_attempt_at };
    assert_eq!(claim(&harness, 9).await.remove(0).progress, progress);
    assert_eq!(harness.list_deliveries().await[0].last_status, Some(500));
}

/// Inserts three deliveries for each of 40 webhooks of the caller's tenant.
async fn insert_for_many_webhooks(harness: &StoreHarness) -> Vec<WebhookKey> {
    let build_key = |number| {
        let webhook = WebhookId(Uuid::from_bytes([number; 16]));
        WebhookKey { tenant: harness.tenant(), webhook }
    };
    let keys: Vec<_> = (0..40).map(build_key).collect();
    let events = keys.iter().flat_map(|key| (0..3).map(move |it| (*key, it)));
    let build = |(key, number)| NewDelivery { key, ..harness.new_delivery(number) };
    insert(harness, events.map(build).collect()).await;
    keys
}

async fn due_webhooks_of_all_tenants_are_listed(harness: StoreHarness) {
    let mut keys = insert_for_many_webhooks(&harness).await;
    let harness = harness.with_callers_swapped();
    keys.extend(insert_for_many_webhooks(&harness).await);
    keys.sort();
    let (store, now) = (harness.store(), harness.now());
    assert_eq!(store.list_due_webhooks(now).await.unwrap(), keys);
    assert_eq!(store.list_webhooks_with_deliveries().await.unwrap(), keys);
    assert_eq!(store.list_due_webhooks(now.minus(SECOND)).await.unwrap(), []);
    // A webhook without a due delivery is not listed, also between two others.
    let claim = DeliveryClaim { now, lease_until: now.plus(LEASE), deliveries_max: 9 };
    assert_eq!(store.claim_deliveries(keys[7], claim).await.unwrap().len(), 3);
    let claim = DeliveryClaim { deliveries_max: 2, ..claim };
    assert_eq!(store.claim_deliveries(keys[8], claim).await.unwrap().len(), 2);
    let claimed = keys.remove(7);
    assert_eq!(store.list_due_webhooks(now).await.unwrap(), keys);
    assert!(store.list_webhooks_with_deliveries().await.unwrap().contains(&claimed));
}

async fn list_continues_before_an_event(harness: StoreHarness) {
    for number in 0..5 {
        insert(&harness, vec![harness.new_delivery(number)]).await;
        harness.advance(SECOND);
    }
    let (permit, webhook) = (harness.policy_permit(), harness.webhook_key().webhook);
    let list = async |before, deliveries_max| {
        let deliveries = harness.store().list_deliveries(&permit, webhook, before, deliveries_max);
        deliveries.await.unwrap().iter().map(|it| it.event).collect::<Vec<_>>()
    };
    let first_page = list(None, 2).await;
    let times: Vec<_> = first_page.iter().map(|it| it.0.as_bytes()[15]).collect();
    assert_eq!(times, [4, 3]);
    let rest = list(Some(first_page[1]), 9).await;
    assert_eq!(rest.iter().map(|it| it.0.as_bytes()[15]).collect::<Vec<_>>(), [2, 1, 0]);
    let harness = harness.with_callers_swapped();
    assert_eq!(harness.list_deliveries().await, [], "another tenant sees nothing");
}

async fn success_is_found_from_its_time_on(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(1), harness.new_delivery(2)]).await;
    let claimed = claim(&harness, 9).await;
    harness.advance(SECOND);
    let has_delivered = async |since: Timestamp| {
        harness.store().has_delivered_since(harness.webhook_key(), since).await.unwrap()
    };
    finish(&harness, &claimed[0], DeliveryChange::Exhaust).await;
    assert!(!has_delivered(Timestamp { unix_ms: 0 }).await);
    finish(&harness, &claimed[1], DeliveryChange::Deliver).await;
    assert!(has_delivered(harness.now()).await);
    assert!(!has_delivered(harness.now().plus(Duration::from_millis(1))).await);
}

async fn replay_repeats_finished_deliveries_in_steps(harness: StoreHarness) {
    let start = harness.now();
    for number in 0..5 {
        insert(&harness, vec![harness.new_delivery(number)]).await;
        harness.advance(SECOND);
    }
    for (index, it) in claim(&harness, 4).await.iter().enumerate() {
        let change = if index % 2 == 0 { DeliveryChange::Deliver } else { DeliveryChange::Exhaust };
        finish(&harness, it, change).await;
    }
    let webhook = harness.webhook_key().webhook;
    let (from, now) = (start.plus(SECOND), harness.now());
    let replay = DeliveryReplay { webhook, from, after: None, now, deliveries_max: 2 };
    let run = async |replay, extras| {
        harness.store().replay_deliveries(harness.policy_permit(), replay, extras).await.unwrap()
    };
    let records = harness.row_counts().await[2];
    let first = run(replay, Some(build_extras(&harness, Vec::new()))).await;
    assert_eq!(harness.row_counts().await[2], records + 1);
    let event = |seconds: u32, number| event_id(start.plus(SECOND * seconds), number);
    assert_eq!(first, ReplayedDeliveries { count: 2, last: Some(event(2, 2)) });
    let second = run(DeliveryReplay { after: first.last, ..replay }, None).await;
    assert_eq!(second, ReplayedDeliveries { count: 1, last: None });
    let third = run(DeliveryReplay { after: first.last, ..replay }, None).await;
    assert_eq!(third, ReplayedDeliveries::default(), "pending deliveries are not replayed");
    let deliveries = harness.list_deliveries().await;
    let states: Vec<_> = deliveries.iter().map(|it| (it.state, it.attempts)).collect();
    let (done, again) = ((DeliveryState::Delivered, 1), (DeliveryState::Pending, 0));
    assert_eq!(states, [done, again, again, again, again]);
    let claimed = claim(&harness, 9).await;
    let mut claimed_numbers = numbers(&claimed);
    claimed_numbers.sort_unstable();
    assert_eq!(claimed_numbers, [1, 2, 3, 4]);
    assert!(claimed.iter().all(|it| it.progress.first_attempt_at == now));
}

/// A replayed event may be older than every pending delivery may be.
async fn replayed_delivery_is_pending_since_the_replay(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let (from, claimed) = (harness.now(), claim(&harness, 9).await.remove(0));
    finish(&harness, &claimed, DeliveryChange::Exhaust).await;
    assert_eq!(harness.store().count_pending_deliveries().await.unwrap(), (0, None));
    harness.advance(Duration::from_secs(20 * 24 * 60 * 60));
    let (webhook, now) = (harness.webhook_key().webhook, harness.now());
    let replay = DeliveryReplay { webhook, from, after: None, now, deliveries_max: 9 };
    harness.store().replay_deliveries(harness.policy_permit(), replay, None).await.unwrap();
    assert_eq!(harness.store().count_pending_deliveries().await.unwrap(), (1, Some(now)));
    let records = harness.store().list_records(LogKind::Audit, harness.tenant(), 0, 999).await;
    assert!(records.unwrap().iter().all(|it| it.operation != "drop_webhook_deliveries"));
}

async fn signing_key_is_stored_once(harness: StoreHarness) {
    let store = harness.store();
    let key = |byte| scrip_seal::Sealed::from_stored(vec![byte; 9]);
    assert_eq!(store.find_webhook_signing_key().await.unwrap(), None);
    assert_eq!(store.insert_webhook_signing_key(key(1)).await.unwrap(), key(1));
    assert_eq!(store.insert_webhook_signing_key(key(2)).await.unwrap(), key(1));
    assert_eq!(store.find_webhook_signing_key().await.unwrap(), Some(key(1)));
    harness.vault_harness.directory().await;
}

/// The search may look at many pending rows, and other tenants need the writer.
#[tokio::test]
async fn replay_without_finished_deliveries_does_not_wait_for_the_writer() {
    let harness = StoreHarness::open(Engine::Sqlite).await;
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let file = harness.vault_harness.file();
    let other_writer = rusqlite::Connection::open(file).unwrap();
    other_writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let replay = DeliveryReplay {
        webhook: harness.webhook_key().webhook,
        from: Timestamp { unix_ms: 0 },
        after: None,
        now: harness.now(),
        deliveries_max: 9,
    };
    let store = harness.store();
    let replayed = store.replay_deliveries(harness.policy_permit(), replay, None);
    let replayed = tokio::time::timeout(Duration::from_secs(4), replayed).await;
    assert_eq!(replayed.expect("no wait").unwrap().count, 0);
    other_writer.execute_batch("ROLLBACK").unwrap();
}
