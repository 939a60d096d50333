//! Deliveries of events to webhooks: rows, replay and bounds.

use scrip_core::{
    audit::AuditRecord,
    events::{
        AttemptResult, ClaimedDelivery, DeliveryChange, DeliveryProgress, DeliveryRecord,
        DeliveryState, NewDelivery, WebhookKey,
    },
    store::deliveries::{DeliveryBounds, DeliveryReplay, ReplayedDeliveries, TrimmedDeliveries},
    types::{
        StoreError,
        id::{EventId, TenantId},
    },
};
use uuid::Uuid;

use crate::sql::{
    ColumnReader, Execute, Parameter, Statements, WriteTransaction, parameters, read_optional,
    read_required,
};

/// The columns tenant, webhook, event, event type, time of the event, and body of a new row.
pub(crate) fn delivery_parameters(delivery: &NewDelivery) -> [Parameter<'_>; 6] {
    parameters![
        delivery.key.tenant,
        delivery.key.webhook,
        delivery.event,
        delivery.event_type,
        delivery.occurred_at,
        &delivery.body,
    ]
}

/// Skips a row with ids that cannot be decoded, so that it does not hide the other rows.
pub(crate) fn decode_webhook_key(row: &dyn ColumnReader) -> Result<Option<WebhookKey>, StoreError> {
    let (tenant, webhook) = (read_required(row, 0), read_required(row, 1));
    Ok(tenant.ok().zip(webhook.ok()).map(|(tenant, webhook)| WebhookKey { tenant, webhook }))
}

/// Decodes the columns event, event type, time of the event, attempts, time of the first attempt and
/// body. Skips a row that cannot be decoded: it must not prevent the other deliveries. Its lease
/// ends, and it becomes too old.
pub(crate) fn decode_claimed_delivery(
    row: &dyn ColumnReader,
    key: WebhookKey,
) -> Option<ClaimedDelivery> {
    let decode = || {
        let progress = DeliveryProgress {
            attempts: read_required(row, 3)?,
            first_attempt_at: read_required(row, 4)?,
        };
        Ok::<_, StoreError>(ClaimedDelivery {
            key,
            event: read_required(row, 0)?,
            event_type: read_required(row, 1)?,
            occurred_at: read_required(row, 2)?,
            progress,
            body: read_required(row, 5)?,
        })
    };
    let claimed = decode();
    if claimed.is_err() {
        tracing::error!(tenant = %key.tenant, webhook = %key.webhook, "the row of a delivery is invalid");
    }
    claimed.ok()
}

pub(crate) const LIST_DELIVERIES: &str = "
-- list_deliveries
SELECT event, event_type, occurred_at, state, attempts, last_attempt_at, next_at, last_status,
    last_error
FROM deliveries WHERE tenant = $1 AND webhook = $2 AND event < $3 ORDER BY event DESC LIMIT $4";

pub(crate) fn decode_delivery(row: &dyn ColumnReader) -> Result<DeliveryRecord, StoreError> {
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

/// The columns event, attempts of the claim, new state, whether the attempt is not counted, time of
/// the next attempt, time of this attempt, status and error.
pub(crate) fn result_parameters(result: &AttemptResult) -> [Parameter<'_>; 8] {
    let (state, is_uncounted, next_at) = match result.change {
        DeliveryChange::Deliver => (DeliveryState::Delivered, false, None),
        DeliveryChange::RetryAt(at) => (DeliveryState::Pending, false, Some(at)),
        DeliveryChange::Exhaust => (DeliveryState::Exhausted, false, None),
        DeliveryChange::PostponeTo(at) => (DeliveryState::Pending, true, Some(at)),
    };
    parameters![
        result.event,
        result.attempts,
        state.as_str(),
        is_uncounted,
        next_at,
        result.at,
        result.status,
        result.error.as_deref(),
    ]
}

pub(crate) const FIND_SUCCESS: &str = "
-- find_success
SELECT 1 FROM deliveries
WHERE tenant = $1 AND webhook = $2 AND state = 'delivered' AND last_attempt_at >= $3 LIMIT 1";

pub(crate) const COUNT_PENDING: &str = "
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

/// Finds the deliveries of one step. It may look at many pending rows, so it runs before the write.
pub(crate) async fn find_replay_range(
    client: &impl Statements,
    tenant: TenantId,
    replay: &DeliveryReplay,
) -> Result<Option<ReplayRange>, StoreError> {
    let before_first = EventId::first_at(replay.from).0.as_u128().saturating_sub(1);
    let before_first = EventId(Uuid::from_u128(before_first));
    let after = replay.after.map_or(before_first, |it| it.max(before_first));
    let key = parameters![tenant, replay.webhook, after, replay.deliveries_max];
    let events: Vec<EventId> =
        client.query(LIST_FINISHED, &key, |row| read_required(row, 0)).await?;
    let is_last_step = events.len() < replay.deliveries_max;
    let bounds = events.first().zip(events.last());
    Ok(bounds.map(|(first, last)| ReplayRange { first: *first, last: *last, is_last_step }))
}

/// The finished deliveries of one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplayRange {
    first: EventId,
    last: EventId,
    is_last_step: bool,
}

/// Makes the finished deliveries of a step pending again.
pub(crate) async fn replay_deliveries(
    client: &impl Execute,
    tenant: TenantId,
    replay: &DeliveryReplay,
    range: Option<ReplayRange>,
) -> Result<ReplayedDeliveries, StoreError> {
    let Some(ReplayRange { first, last, is_last_step }) = range else {
        return Ok(ReplayedDeliveries::default());
    };
    let key = parameters![replay.now, tenant, replay.webhook, first, last];
    let count = client.execute(REPLAY, &key).await?;
    Ok(ReplayedDeliveries { count, last: (!is_last_step).then_some(last) })
}

/// Whether a delivery is beyond the bounds, so that most sweeps need no writer.
pub(crate) const FIND_EXCESS: &str = "
-- find_excess_deliveries
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND event < $3 AND state <> 'pending')
OR EXISTS (
    SELECT 1 FROM deliveries
    WHERE tenant = $1 AND webhook = $2 AND state = 'pending' AND pending_since < $4)
OR (SELECT event FROM deliveries
    WHERE tenant = $1 AND webhook = $2 ORDER BY event DESC LIMIT 1 OFFSET $5) IS NOT NULL";

pub(crate) fn excess_parameters<'a>(
    webhook: WebhookKey,
    bounds: &DeliveryBounds,
) -> [Parameter<'a>; 5] {
    parameters![
        webhook.tenant,
        webhook.webhook,
        EventId::first_at(bounds.oldest_finished),
        bounds.oldest_pending,
        bounds.deliveries_max,
    ]
}

/// An engine's statements that end deliveries. Parameters: tenant, webhook, bound and limit.
pub(crate) struct TrimStatements {
    /// Deletes finished deliveries before an event.
    pub(crate) delete_finished: &'static str,
    /// Exhausts deliveries that are pending since before a time.
    pub(crate) exhaust: &'static str,
    /// Deletes deliveries up to an event; returns their states.
    pub(crate) delete_oldest: &'static str,
}

/// The newest of the deliveries beyond a number.
const FIND_NEWEST_EXCESS: &str = "
-- find_newest_excess_delivery
SELECT event FROM deliveries
WHERE tenant = $1 AND webhook = $2 ORDER BY event DESC LIMIT 1 OFFSET $3";

/// Ends deliveries in the order that loses the fewest events: old finished ones make room first.
pub(crate) async fn trim_deliveries<T: WriteTransaction>(
    transaction: &mut T,
    statements: &TrimStatements,
    key: WebhookKey,
    bounds: &DeliveryBounds,
    audit: &AuditRecord,
) -> Result<TrimmedDeliveries, StoreError> {
    let WebhookKey { tenant, webhook } = key;
    transaction.check_tenant(tenant).await?;
    let mut remaining = bounds.step;
    let first_kept = EventId::first_at(bounds.oldest_finished);
    let rows = parameters![tenant, webhook, first_kept, remaining];
    let deleted = transaction.execute(statements.delete_finished, &rows).await?;
    remaining = remaining.saturating_sub(deleted);
    let rows = parameters![tenant, webhook, bounds.oldest_pending, remaining];
    let exhausted = transaction.execute(statements.exhaust, &rows).await?;
    remaining = remaining.saturating_sub(exhausted);
    let mut trimmed = TrimmedDeliveries { exhausted, dropped: 0, deleted };
    let rows = parameters![tenant, webhook, bounds.deliveries_max];
    let newest: Option<EventId> =
        transaction.find(FIND_NEWEST_EXCESS, &rows, |row| read_required(row, 0)).await?;
    if let Some(newest) = newest {
        let rows = parameters![tenant, webhook, newest, remaining];
        let is_pending = |row: &dyn ColumnReader| {
            Ok(read_required::<&str>(row, 0)? == DeliveryState::Pending.as_str())
        };
        for is_pending in transaction.query(statements.delete_oldest, &rows, is_pending).await? {
            let count = if is_pending { &mut trimmed.dropped } else { &mut trimmed.deleted };
            *count = count.saturating_add(1);
        }
    }
    let lost = trimmed.exhausted.saturating_add(trimmed.dropped);
    if lost > 0 {
        let mut audit = audit.clone();
        audit.repeats = Some(i64::try_from(lost).unwrap_or(i64::MAX));
        transaction.append_audit_record(tenant, &audit, &webhook.to_string(), "dropped").await?;
    }
    Ok(trimmed)
}

pub(crate) const STATEMENTS: &[&str] = &[
    LIST_DELIVERIES,
    FIND_SUCCESS,
    COUNT_PENDING,
    LIST_FINISHED,
    REPLAY,
    FIND_EXCESS,
    FIND_NEWEST_EXCESS,
];
