//! Deliveries of events to webhooks: the rows that both engines write and claim.

use scrip_core::{
    events::{
        AttemptResult, ClaimedDelivery, DeliveryChange, DeliveryProgress, DeliveryState,
        NewDelivery, WebhookKey,
    },
    types::StoreError,
};

use crate::sql::{ColumnReader, Parameter, parameters, read_required};

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

/// An engine's statements that end deliveries. Parameters: tenant, webhook, bound and limit.
pub(crate) struct TrimStatements {
    /// Deletes finished deliveries before an event.
    pub(crate) delete_finished: &'static str,
    /// Exhausts deliveries that are pending since before a time.
    pub(crate) exhaust: &'static str,
    /// Deletes deliveries up to an event; returns their states.
    pub(crate) delete_oldest: &'static str,
}
