//! Deliveries of events to webhooks.

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    change::CommitExtras,
    events::{AttemptResult, ClaimedDelivery, DeliveryRecord, DeliveryState, WebhookKey},
    policy::PolicyPermit,
    store::{
        DeliveryStore,
        deliveries::{
            DeliveryBounds, DeliveryClaim, DeliveryReplay, ReplayedDeliveries, TrimmedDeliveries,
        },
    },
    types::{
        StoreError, StoreFuture,
        id::{EventId, WebhookId},
    },
};
use uuid::Uuid;

use crate::{
    shared::idempotency::insert_commit_extras,
    sql::{
        ColumnReader, Execute, Statements, WriteTransaction, parameters, read_optional,
        read_required,
    },
};

const LIST_DELIVERIES: &str = "
-- list_deliveries
SELECT event, event_type, occurred_at, state, attempts, last_attempt_at, next_at, last_status,
    last_error
FROM deliveries WHERE tenant = $1 AND webhook = $2 AND event < $3 ORDER BY event DESC LIMIT $4";

const FIND_SUCCESS: &str = "
-- find_success
SELECT 1 FROM deliveries
WHERE tenant = $1 AND webhook = $2 AND state = 'delivered' AND last_attempt_at >= $3 LIMIT 1";

const COUNT_PENDING: &str = "
-- count_pending_deliveries
SELECT count(*), min(pending_since) FROM deliveries WHERE state = 'pending'";

const LIST_FINISHED: &str = "
-- list_finished_deliveries
SELECT event FROM deliveries
WHERE tenant = $1 AND webhook = $2 AND event > $3 AND state <> 'pending' ORDER BY event LIMIT $4";

/// The last attempt stays visible until the next one.
const REPLAY: &str = "
-- replay_deliveries
UPDATE deliveries SET state = 'pending', pending_since = $1, attempts = 0, first_attempt_at = NULL,
    next_at = $1
WHERE tenant = $2 AND webhook = $3 AND event >= $4 AND event <= $5 AND state <> 'pending'";

/// Whether a delivery is beyond the bounds, so that most sweeps need no writer.
const FIND_EXCESS: &str = "
-- find_excess_deliveries
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND event < $3 AND state <> 'pending')
OR EXISTS (
    SELECT 1 FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND state = 'pending' AND pending_since < $4)
OR (SELECT event FROM deliveries
    WHERE tenant = $1 AND webhook = $2 ORDER BY event DESC LIMIT 1 OFFSET $5) IS NOT NULL";

/// The newest of the deliveries beyond a number.
const FIND_NEWEST_EXCESS: &str = "
-- find_newest_excess_delivery
SELECT event FROM deliveries
WHERE tenant = $1 AND webhook = $2 ORDER BY event DESC LIMIT 1 OFFSET $3";

for_both_engines! {
impl DeliveryStore {
    fn list_due_webhooks(&self, now: Timestamp) -> StoreFuture<'_, Vec<WebhookKey>> {
        Box::pin(async move {
            let client = self.for_all_tenants();
            let keys = client.query(Self::LIST_DUE_WEBHOOKS, &parameters![now], decode_webhook_key).await?;
            Ok(keys.into_iter().flatten().collect())
        })
    }

    fn claim_deliveries(
        &self,
        webhook: WebhookKey,
        claim: DeliveryClaim,
    ) -> StoreFuture<'_, Vec<ClaimedDelivery>> {
        Box::pin(self.claim_due(webhook, claim))
    }

    fn finish_deliveries(
        &self,
        webhook: WebhookKey,
        results: Vec<AttemptResult>,
    ) -> StoreFuture<'_, usize> {
        Box::pin(self.put_results(webhook, results))
    }

    fn move_read_deliveries(&self) -> StoreFuture<'_, usize> {
        Box::pin(self.move_from_read_log())
    }

    fn has_delivered_since(&self, webhook: WebhookKey, since: Timestamp) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let key = parameters![webhook.tenant, webhook.webhook, since];
            let success = self.for_tenant(webhook.tenant).find(FIND_SUCCESS, &key, |_| Ok(())).await?;
            Ok(success.is_some())
        })
    }

    fn list_deliveries<'a>(
        &'a self,
        permit: &'a PolicyPermit,
        webhook: WebhookId,
        before: Option<EventId>,
        deliveries_max: usize,
    ) -> StoreFuture<'a, Vec<DeliveryRecord>> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            let before = before.unwrap_or(EventId(Uuid::max()));
            let key = parameters![tenant, webhook, before, deliveries_max];
            self.for_tenant(tenant).query(LIST_DELIVERIES, &key, decode_delivery).await
        })
    }

    fn insert_deliveries(&self, permit: PolicyPermit, extras: CommitExtras) -> StoreFuture<'_, ()> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| {
            it.check_tenant(tenant).await?;
            insert_commit_extras(it, tenant, &extras, "done").await
        }))
    }

    fn replay_deliveries(
        &self,
        permit: PolicyPermit,
        replay: DeliveryReplay,
        extras: Option<CommitExtras>,
    ) -> StoreFuture<'_, ReplayedDeliveries> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            // A step may look at many pending rows, so it finds its deliveries before the write.
            let before_first = EventId::first_at(replay.from).0.as_u128().saturating_sub(1);
            let before_first = EventId(Uuid::from_u128(before_first));
            let after = replay.after.map_or(before_first, |it| it.max(before_first));
            let key = parameters![tenant, replay.webhook, after, replay.deliveries_max];
            let client = self.for_tenant(tenant);
            let events: Vec<EventId> = client.query(LIST_FINISHED, &key, |row| read_required(row, 0)).await?;
            let is_last_step = events.len() < replay.deliveries_max;
            let range = events.first().copied().zip(events.last().copied());
            if range.is_none() && extras.is_none() {
                return Ok(ReplayedDeliveries::default());
            }
            self.write(tenant, async move |it| {
                it.check_tenant(tenant).await?;
                let mut replayed = ReplayedDeliveries::default();
                if let Some((first, last)) = range {
                    let key = parameters![replay.now, tenant, replay.webhook, first, last];
                    replayed.count = it.execute(REPLAY, &key).await?;
                    replayed.last = (!is_last_step).then_some(last);
                }
                if let Some(extras) = &extras {
                    insert_commit_extras(it, tenant, extras, "done").await?;
                }
                Ok(replayed)
            })
            .await
        })
    }


    fn list_webhooks_with_deliveries(&self) -> StoreFuture<'_, Vec<WebhookKey>> {
        Box::pin(async move {
            let client = self.for_all_tenants();
            let keys = client.query(Self::LIST_WEBHOOKS, &[], decode_webhook_key).await?;
            Ok(keys.into_iter().flatten().collect())
        })
    }

    /// Ends deliveries in the order that loses the fewest events: old finished ones make room first.
    fn trim_deliveries(
        &self,
        webhook: WebhookKey,
        bounds: DeliveryBounds,
        audit: AuditRecord,
    ) -> StoreFuture<'_, TrimmedDeliveries> {
        Box::pin(async move {
            let WebhookKey { tenant, webhook } = webhook;
            let first_kept = EventId::first_at(bounds.oldest_finished);
            let key = parameters![tenant, webhook, first_kept, bounds.oldest_pending, bounds.deliveries_max];
            if self.for_tenant(tenant).find(FIND_EXCESS, &key, |_| Ok(())).await?.is_none() {
                return Ok(TrimmedDeliveries::default());
            }
            self.write(tenant, async move |it| {
                it.check_tenant(tenant).await?;
                let mut remaining = bounds.step;
                let rows = parameters![tenant, webhook, first_kept, remaining];
                let deleted = it.execute(Self::TRIM_STATEMENTS.delete_finished, &rows).await?;
                remaining = remaining.saturating_sub(deleted);
                let rows = parameters![tenant, webhook, bounds.oldest_pending, remaining];
                let exhausted = it.execute(Self::TRIM_STATEMENTS.exhaust, &rows).await?;
                remaining = remaining.saturating_sub(exhausted);
                let mut trimmed = TrimmedDeliveries { exhausted, dropped: 0, deleted };
                let rows = parameters![tenant, webhook, bounds.deliveries_max];
                let newest: Option<EventId> = it.find(FIND_NEWEST_EXCESS, &rows, |row| read_required(row, 0)).await?;
                if let Some(newest) = newest {
                    let rows = parameters![tenant, webhook, newest, remaining];
                    let is_pending = |row: &dyn ColumnReader| {
                        Ok(read_required::<&str>(row, 0)? == DeliveryState::Pending.as_str())
                    };
                    let states = it.query(Self::TRIM_STATEMENTS.delete_oldest, &rows, is_pending).await?;
                    for is_pending in states {
                        let count = if is_pending { &mut trimmed.dropped } else { &mut trimmed.deleted };
                        *count = count.saturating_add(1);
                    }
                }
                let lost = trimmed.exhausted.saturating_add(trimmed.dropped);
                if lost > 0 {
                    let mut audit = audit.clone();
                    audit.repeats = Some(i64::try_from(lost).unwrap_or(i64::MAX));
                    it.append_audit_record(tenant, &audit, &webhook.to_string(), "dropped").await?;
                }
                Ok(trimmed)
            })
            .await
        })
    }


    fn delete_orphan_deliveries(&self, webhook: WebhookKey) -> StoreFuture<'_, usize> {
        Box::pin(self.delete_orphans(webhook))
    }

    fn count_pending_deliveries(&self) -> StoreFuture<'_, (u64, Option<Timestamp>)> {
        Box::pin(async move {
            let decode = |row: &dyn ColumnReader| {
                let count = read_required::<i64>(row, 0)?;
                Ok((count.unsigned_abs(), read_optional(row, 1)?))
            };
            let count = self.for_all_tenants().find(COUNT_PENDING, &[], decode).await?;
            Ok(count.unwrap_or_default())
        })
    }
}
}

/// Skips a row with ids that cannot be decoded, so that it does not hide the other rows.
fn decode_webhook_key(row: &dyn ColumnReader) -> Result<Option<WebhookKey>, StoreError> {
    let (tenant, webhook) = (read_required(row, 0), read_required(row, 1));
    Ok(tenant.ok().zip(webhook.ok()).map(|(tenant, webhook)| WebhookKey { tenant, webhook }))
}

fn decode_delivery(row: &dyn ColumnReader) -> Result<DeliveryRecord, StoreError> {
    let decode = || {
        let state = read_required(row, 3)?;
        let next_at = read_required(row, 6)?;
        Ok(DeliveryRecord {
            event: read_required(row, 0)?,
            event_type: read_required(row, 1)?,
            occurred_at: read_required(row, 2)?,
            state,
            attempts: read_required(row, 4)?,
            last_attempt_at: read_optional(row, 5)?,
            next_attempt_at: (state == DeliveryState::Pending).then_some(next_at),
            last_status: read_optional(row, 7)?,
            last_error: read_optional(row, 8)?,
        })
    };
    decode().map_err(|_: StoreError| StoreError::Corrupt("the row of a delivery is invalid"))
}
