//! Deliveries of events to webhooks.

use scrip_core::{
    Timestamp,
    audit::AuditRecord,
    change::CommitExtras,
    events::{AttemptResult, ClaimedDelivery, DeliveryRecord, WebhookKey},
    policy::PolicyPermit,
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
use uuid::Uuid;

use crate::{
    shared::{
        deliveries::{
            COUNT_PENDING, FIND_EXCESS, FIND_SUCCESS, LIST_DELIVERIES, decode_delivery,
            decode_webhook_key, excess_parameters, find_replay_range, replay_deliveries,
            trim_deliveries,
        },
        idempotency::insert_commit_extras,
    },
    sql::{ColumnReader, Statements, WriteTransaction, parameters, read_optional, read_required},
    stores::both_engines::for_both_engines,
};

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
            let range = find_replay_range(&self.for_tenant(tenant), tenant, &replay).await?;
            if range.is_none() && extras.is_none() {
                return Ok(ReplayedDeliveries::default());
            }
            self.write(tenant, async move |it| {
                it.check_tenant(tenant).await?;
                let replayed = replay_deliveries(it, tenant, &replay, range).await?;
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

    fn trim_deliveries(
        &self,
        webhook: WebhookKey,
        bounds: DeliveryBounds,
        audit: AuditRecord,
    ) -> StoreFuture<'_, TrimmedDeliveries> {
        Box::pin(async move {
            let tenant = webhook.tenant;
            let key = excess_parameters(webhook, &bounds);
            if self.for_tenant(tenant).find(FIND_EXCESS, &key, |_| Ok(())).await?.is_none() {
                return Ok(TrimmedDeliveries::default());
            }
            self.write(tenant, async move |it| {
                trim_deliveries(it, &Self::TRIM_STATEMENTS, webhook, &bounds, &audit).await
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
