//! Deliveries of events to webhooks, in a list.

use std::collections::BTreeSet;

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    change::CommitExtras,
    events::{
        AttemptResult, ClaimedDelivery, DeliveryRecord, DeliveryState, NewDelivery, WebhookKey,
    },
    policy::{PolicyPermit, PolicyRecords},
    store::{
        DeliveryStore,
        deliveries::{
            DeliveryBounds, DeliveryClaim, DeliveryReplay, ReplayedDeliveries, TrimmedDeliveries,
        },
    },
    types::{
        StoreFuture,
        id::{EventId, WebhookId},
    },
};

use crate::memory::{
    MemoryStore,
    state::{DeliveryRow, MemoryStoreState},
};

impl DeliveryStore for MemoryStore {
    fn list_due_webhooks(&self, now: Timestamp) -> StoreFuture<'_, Vec<WebhookKey>> {
        self.with(move |state| {
            let due = state.deliveries.iter().filter(|it| it.is_due(now));
            due.map(|it| it.key).collect::<BTreeSet<_>>().into_iter().collect()
        })
    }

    fn claim_deliveries(
        &self,
        webhook: WebhookKey,
        claim: DeliveryClaim,
    ) -> StoreFuture<'_, Vec<ClaimedDelivery>> {
        self.with(move |state| {
            let mut due: Vec<_> =
                state.rows(webhook).into_iter().filter(|it| it.is_due(claim.now)).collect();
            due.sort_by_key(|it| (it.next_at, it.record.event));
            due.into_iter().take(claim.deliveries_max).map(|it| it.claim(claim)).collect()
        })
    }

    fn finish_deliveries(
        &self,
        webhook: WebhookKey,
        results: Vec<AttemptResult>,
    ) -> StoreFuture<'_, usize> {
        self.with(move |state| {
            let mut stored = 0;
            for result in results {
                let is_current = |it: &DeliveryRow| {
                    it.record.event == result.event
                        && it.is_pending()
                        && it.record.attempts == result.attempts
                };
                if let Some(row) = state.rows(webhook).into_iter().find(|it| is_current(it)) {
                    row.finish(&result);
                    stored += 1;
                }
            }
            stored
        })
    }

    fn has_delivered_since(&self, webhook: WebhookKey, since: Timestamp) -> StoreFuture<'_, bool> {
        self.with(move |state| {
            state.rows(webhook).iter().any(|it| {
                it.record.state == DeliveryState::Delivered
                    && it.record.last_attempt_at.is_some_and(|at| at >= since)
            })
        })
    }

    fn list_deliveries<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        webhook: WebhookId,
        before: Option<EventId>,
        deliveries_max: usize,
    ) -> StoreFuture<'a, Vec<DeliveryRecord>> {
        self.with(move |state| {
            let rows = state.rows(WebhookKey { tenant: permit.tenant().id, webhook });
            let older = rows.iter().rev().filter(|it| before.is_none_or(|at| it.record.event < at));
            older.take(deliveries_max).map(|it| it.to_record()).collect()
        })
    }

    fn insert_deliveries(&self, permit: PolicyPermit, extras: CommitExtras) -> StoreFuture<'_, ()> {
        self.attempt(move |state| {
            let tenant = permit.tenant().id;
            state.check_tenant(tenant)?;
            state.insert_commit_extras(tenant, extras, "done")
        })
    }

    fn replay_deliveries(
        &self,
        permit: PolicyPermit,
        replay: DeliveryReplay,
        extras: Option<CommitExtras>,
    ) -> StoreFuture<'_, ReplayedDeliveries> {
        self.attempt(move |state| {
            let tenant = permit.tenant().id;
            state.check_tenant(tenant)?;
            let is_replayed = |it: &&mut DeliveryRow| {
                !it.is_pending()
                    && it.record.event >= EventId::first_at(replay.from)
                    && replay.after.is_none_or(|after| it.record.event > after)
            };
            let rows = state.rows(WebhookKey { tenant, webhook: replay.webhook });
            let rows = rows.into_iter().filter(is_replayed).take(replay.deliveries_max);
            let events: Vec<_> = rows
                .map(|it| {
                    it.replay(replay.now);
                    it.record.event
                })
                .collect();
            let is_complete = events.len() < replay.deliveries_max;
            let last = events.last().copied().filter(|_| !is_complete);
            if let Some(extras) = extras {
                state.insert_commit_extras(tenant, extras, "done")?;
            }
            Ok(ReplayedDeliveries { count: events.len(), last })
        })
    }

    fn list_webhooks_with_deliveries(&self) -> StoreFuture<'_, Vec<WebhookKey>> {
        self.with(|state| {
            let keys = state.deliveries.iter().map(|it| it.key);
            keys.collect::<BTreeSet<_>>().into_iter().collect()
        })
    }

    fn trim_deliveries(
        &self,
        webhook: WebhookKey,
        bounds: DeliveryBounds,
        audit: AuditRecord,
    ) -> StoreFuture<'_, TrimmedDeliveries> {
        self.attempt(move |state| {
            state.check_tenant(webhook.tenant)?;
            Ok(state.trim(webhook, bounds, audit))
        })
    }

    fn delete_orphan_deliveries(&self, webhook: WebhookKey) -> StoreFuture<'_, usize> {
        self.with(move |state| {
            let is_owner = |it: &PolicyRecords| {
                it.tenant.record.id == webhook.tenant
                    && it.webhooks.iter().any(|it| it.record.id == webhook.webhook)
            };
            let count_before = state.deliveries.len();
            if !state.directory.tenants.iter().any(is_owner) {
                state.deliveries.retain(|it| it.key != webhook);
            }
            count_before - state.deliveries.len()
        })
    }

    fn count_pending_deliveries(&self) -> StoreFuture<'_, (u64, Option<Timestamp>)> {
        self.with(|state| {
            let pending = || state.deliveries.iter().filter(|it| it.is_pending());
            let count = u64::try_from(pending().count()).unwrap_or(u64::MAX);
            (count, pending().map(|it| it.pending_since).min())
        })
    }
}

impl MemoryStoreState {
    pub(super) fn insert_deliveries(&mut self, deliveries: Vec<NewDelivery>) {
        for NewDelivery { key, event, event_type, occurred_at, body } in deliveries {
            let record = DeliveryRecord {
                event,
                event_type: event_type.to_owned(),
                occurred_at,
                state: DeliveryState::Pending,
                attempts: 0,
                last_attempt_at: None,
                next_attempt_at: None,
                last_status: None,
                last_error: None,
            };
            let (pending_since, next_at) = (occurred_at, occurred_at);
            let first_attempt_at = None;
            let row = DeliveryRow { key, body, pending_since, first_attempt_at, next_at, record };
            self.deliveries.push(row);
        }
    }

    /// The deliveries of a webhook, in the order of their events.
    fn rows(&mut self, key: WebhookKey) -> Vec<&mut DeliveryRow> {
        let mut rows: Vec<_> = self.deliveries.iter_mut().filter(|it| it.key == key).collect();
        rows.sort_by_key(|it| it.record.event);
        rows
    }

    /// Deletes the first deliveries of a webhook that match; returns their states.
    fn delete_deliveries(
        &mut self,
        key: WebhookKey,
        rows_max: usize,
        is_deleted: impl Fn(&DeliveryRow) -> bool,
    ) -> Vec<DeliveryState> {
        let rows = self.rows(key).into_iter().filter(|it| is_deleted(it)).take(rows_max);
        let deleted: Vec<_> = rows.map(|it| (it.record.event, it.record.state)).collect();
        let is_kept = |it: &DeliveryRow| {
            it.key != key || !deleted.iter().any(|(event, _)| *event == it.record.event)
        };
        self.deliveries.retain(is_kept);
        deleted.into_iter().map(|(_, state)| state).collect()
    }

    fn trim(
        &mut self,
        key: WebhookKey,
        bounds: DeliveryBounds,
        mut audit: AuditRecord,
    ) -> TrimmedDeliveries {
        let first_kept = EventId::first_at(bounds.oldest_finished);
        let is_old = |it: &DeliveryRow| !it.is_pending() && it.record.event < first_kept;
        let mut deleted = self.delete_deliveries(key, bounds.step, is_old).len();
        let mut remaining = bounds.step - deleted;
        let is_late =
            |it: &&mut DeliveryRow| it.is_pending() && it.pending_since < bounds.oldest_pending;
        let mut late: Vec<_> = self.rows(key).into_iter().filter(is_late).collect();
        late.sort_by_key(|it| it.pending_since);
        late.truncate(remaining);
        let exhausted = late.len();
        late.into_iter().for_each(|it| it.record.state = DeliveryState::Exhausted);
        remaining -= exhausted;
        let excess = self.rows(key).len().saturating_sub(bounds.deliveries_max);
        let states = self.delete_deliveries(key, remaining.min(excess), |_| true);
        let dropped = states.iter().filter(|it| **it == DeliveryState::Pending).count();
        deleted += states.len() - dropped;
        let lost = i64::try_from(exhausted + dropped).unwrap_or(i64::MAX);
        if lost > 0 {
            audit.repeats = Some(lost);
            self.append_audit_record(key.tenant, &audit, &key.webhook.to_string(), "dropped");
        }
        TrimmedDeliveries { exhausted, dropped, deleted }
    }
}
