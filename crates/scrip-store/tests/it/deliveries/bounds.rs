//! The bounds of stored deliveries, and deliveries without a webhook.

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    audit::{AuditRecord, LogKind, LogRecord},
    events::{DeliveryChange, DeliveryState, NewDelivery, WebhookKey},
    operations::{
        tenants::{delete_tenant::delete_tenant, purge_tenants::purge_tenants},
        webhooks::{create_webhook::create_webhook, delete_webhook::delete_webhook},
    },
    policy::PolicyPermit,
    store::deliveries::{DeliveryBounds, TrimmedDeliveries},
    types::Operation,
};
use scrip_testing::{store_harness::StoreHarness, vault::webhook_draft};

use crate::deliveries::claims::{SECOND, claim, finish, insert};

on_every_engine! {
    StoreHarness;
    deliveries_within_the_bounds_stay
    old_pending_deliveries_are_exhausted_with_an_audit_record
    old_finished_deliveries_are_deleted_without_an_audit_record
    oldest_deliveries_beyond_the_number_are_dropped_in_steps
    old_finished_deliveries_make_room_for_pending_ones
    deliveries_of_a_deleted_webhook_are_deleted_in_steps
    deliveries_of_a_deleted_tenant_are_purged
}

const NEVER: Timestamp = Timestamp { unix_ms: 0 };

fn wide_bounds() -> DeliveryBounds {
    let (oldest_pending, oldest_finished) = (NEVER, NEVER);
    DeliveryBounds { oldest_pending, oldest_finished, deliveries_max: 100, step: 100 }
}

async fn trim(harness: &StoreHarness, bounds: DeliveryBounds) -> TrimmedDeliveries {
    let audit: AuditRecord = harness.audit(Operation::DropWebhookDeliveries);
    harness.store().trim_deliveries(harness.webhook_key(), bounds, audit).await.unwrap()
}

/// The numbers in the audit records of lost events.
async fn list_losses(harness: &StoreHarness) -> Vec<Option<i64>> {
    let records = harness.store().list_records(LogKind::Audit, harness.tenant(), 0, 999).await;
    let is_loss = |it: &LogRecord| it.operation == "drop_webhook_deliveries";
    let losses: Vec<_> = records.unwrap().into_iter().filter(is_loss).collect();
    let webhook = harness.webhook_key().webhook.to_string();
    assert!(losses.iter().all(|it| it.entity == webhook && it.outcome == "dropped"));
    losses.into_iter().map(|it| it.repeats).collect()
}

/// Inserts deliveries with one second between their events; returns the time of the first one.
async fn insert_series(harness: &StoreHarness, count: u8) -> Timestamp {
    let start = harness.now();
    for number in 0..count {
        insert(harness, vec![harness.new_delivery(number)]).await;
        harness.advance(SECOND);
    }
    start
}

async fn list_states(harness: &StoreHarness) -> Vec<(u8, DeliveryState)> {
    let deliveries = harness.list_deliveries().await;
    deliveries.iter().map(|it| (it.event.0.as_bytes()[15], it.state)).collect()
}

async fn deliveries_within_the_bounds_stay(harness: StoreHarness) {
    let start = insert_series(&harness, 4).await;
    finish(&harness, &claim(&harness, 1).await[0], DeliveryChange::Deliver).await;
    let before = harness.list_deliveries().await;
    let bounds = DeliveryBounds {
        oldest_pending: start.plus(SECOND),
        oldest_finished: start,
        deliveries_max: 4,
        step: 100,
    };
    assert_eq!(trim(&harness, bounds).await, TrimmedDeliveries::default());
    assert_eq!(harness.list_deliveries().await, before);
    assert_eq!(list_losses(&harness).await, []);
}

async fn old_pending_deliveries_are_exhausted_with_an_audit_record(harness: StoreHarness) {
    let start = insert_series(&harness, 4).await;
    let bounds =
        DeliveryBounds { oldest_pending: start.plus(3 * SECOND), step: 2, ..wide_bounds() };
    let two = TrimmedDeliveries { exhausted: 2, dropped: 0, deleted: 0 };
    assert_eq!(trim(&harness, bounds).await, two);
    let (exhausted, pending) = (DeliveryState::Exhausted, DeliveryState::Pending);
    let states = [(0, exhausted), (1, exhausted), (2, pending), (3, pending)];
    assert_eq!(list_states(&harness).await, states);
    assert_eq!(trim(&harness, bounds).await, TrimmedDeliveries { exhausted: 1, ..two });
    assert_eq!(trim(&harness, bounds).await, TrimmedDeliveries::default());
    assert_eq!(list_losses(&harness).await, [Some(2), Some(1)]);
    assert_eq!(harness.store().count_pending_deliveries().await.unwrap().0, 1);
}

async fn old_finished_deliveries_are_deleted_without_an_audit_record(harness: StoreHarness) {
    let start = insert_series(&harness, 4).await;
    let claimed = claim(&harness, 3).await;
    finish(&harness, &claimed[0], DeliveryChange::Deliver).await;
    finish(&harness, &claimed[1], DeliveryChange::Exhaust).await;
    let bounds =
        DeliveryBounds { oldest_finished: start.plus(4 * SECOND), step: 1, ..wide_bounds() };
    let one = TrimmedDeliveries { exhausted: 0, dropped: 0, deleted: 1 };
    assert_eq!(trim(&harness, bounds).await, one);
    assert_eq!(trim(&harness, bounds).await, one);
    assert_eq!(trim(&harness, bounds).await, TrimmedDeliveries::default());
    let pending = DeliveryState::Pending;
    assert_eq!(list_states(&harness).await, [(2, pending), (3, pending)]);
    assert_eq!(list_losses(&harness).await, []);
}

async fn oldest_deliveries_beyond_the_number_are_dropped_in_steps(harness: StoreHarness) {
    insert_series(&harness, 8).await;
    finish(&harness, &claim(&harness, 1).await[0], DeliveryChange::Deliver).await;
    let other = WebhookKey {
        webhook: scrip_core::types::id::WebhookId(uuid::Uuid::from_bytes([1; 16])),
        ..harness.webhook_key()
    };
    insert(&harness, vec![NewDelivery { key: other, ..harness.new_delivery(1) }]).await;
    let bounds = DeliveryBounds { deliveries_max: 3, step: 4, ..wide_bounds() };
    let first = TrimmedDeliveries { exhausted: 0, dropped: 3, deleted: 1 };
    assert_eq!(trim(&harness, bounds).await, first);
    let second = TrimmedDeliveries { exhausted: 0, dropped: 1, deleted: 0 };
    assert_eq!(trim(&harness, bounds).await, second);
    assert_eq!(trim(&harness, bounds).await, TrimmedDeliveries::default());
    let pending = DeliveryState::Pending;
    assert_eq!(list_states(&harness).await, [(5, pending), (6, pending), (7, pending)]);
    assert_eq!(list_losses(&harness).await, [Some(3), Some(1)]);
    assert!(harness.store().list_due_webhooks(harness.now()).await.unwrap().contains(&other));
}

async fn old_finished_deliveries_make_room_for_pending_ones(harness: StoreHarness) {
    let start = insert_series(&harness, 4).await;
    let claimed = claim(&harness, 4).await;
    for it in &claimed[1..3] {
        finish(&harness, it, DeliveryChange::Deliver).await;
    }
    let oldest_finished = start.plus(3 * SECOND);
    let bounds = DeliveryBounds { oldest_finished, deliveries_max: 2, ..wide_bounds() };
    let deleted = TrimmedDeliveries { exhausted: 0, dropped: 0, deleted: 2 };
    assert_eq!(trim(&harness, bounds).await, deleted);
    let pending = DeliveryState::Pending;
    assert_eq!(list_states(&harness).await, [(0, pending), (3, pending)]);
}

async fn deliveries_of_a_deleted_webhook_are_deleted_in_steps(harness: StoreHarness) {
    let (vault, permit) = (&harness.vault_harness.vault, || harness.policy_permit());
    let webhook = create_webhook(vault, permit(), webhook_draft("orders"), None).await.unwrap();
    let key = WebhookKey { webhook: webhook.record.id, ..harness.webhook_key() };
    let build = |number| NewDelivery { key, ..harness.new_delivery(number) };
    for _ in 0..2 {
        insert(&harness, (0..200).map(build).collect()).await;
        harness.advance(SECOND);
    }
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let store = harness.store();
    assert_eq!(store.delete_orphan_deliveries(key).await.unwrap(), 0);
    delete_webhook(vault, permit(), key.webhook).await.unwrap();
    let mut deleted = 0;
    while let count @ 1.. = store.delete_orphan_deliveries(key).await.unwrap() {
        deleted += count;
    }
    assert_eq!(deleted, 400);
    let keys = store.list_webhooks_with_deliveries().await.unwrap();
    assert_eq!(keys, [harness.webhook_key()]);
}

async fn deliveries_of_a_deleted_tenant_are_purged(harness: StoreHarness) {
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let harness = harness.with_callers_swapped();
    insert(&harness, vec![harness.new_delivery(1)]).await;
    let vault = &harness.vault_harness.vault;
    let tenant = Arc::clone(harness.stranger.principal().tenant());
    delete_tenant(vault, PolicyPermit::for_operator(tenant)).await.unwrap();
    while purge_tenants(vault, &[]).await.unwrap() > 0 {}
    let keys = harness.store().list_webhooks_with_deliveries().await.unwrap();
    assert_eq!(keys, [harness.webhook_key()]);
}
