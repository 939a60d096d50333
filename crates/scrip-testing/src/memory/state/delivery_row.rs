//! A delivery to a webhook.

use scrip_core::{
    Timestamp,
    events::{
        AttemptResult, ClaimedDelivery, DeliveryChange, DeliveryProgress, DeliveryRecord,
        DeliveryState, WebhookKey,
    },
    store::deliveries::DeliveryClaim,
};
use scrip_seal::Sealed;

#[derive(Debug, Clone)]
pub(in crate::memory) struct DeliveryRow {
    pub(in crate::memory) key: WebhookKey,
    pub(in crate::memory) body: Sealed,
    pub(in crate::memory) pending_since: Timestamp,
    pub(in crate::memory) first_attempt_at: Option<Timestamp>,
    pub(in crate::memory) next_at: Timestamp,
    pub(in crate::memory) record: DeliveryRecord,
}

impl DeliveryRow {
    pub(in crate::memory) fn is_pending(&self) -> bool {
        self.record.state == DeliveryState::Pending
    }

    pub(in crate::memory) fn is_due(&self, now: Timestamp) -> bool {
        self.is_pending() && self.next_at <= now
    }

    /// Claims the delivery for an attempt.
    pub(in crate::memory) fn claim(&mut self, claim: DeliveryClaim) -> ClaimedDelivery {
        self.record.attempts += 1;
        self.next_at = claim.lease_until;
        let first_attempt_at = *self.first_attempt_at.get_or_insert(claim.now);
        ClaimedDelivery {
            key: self.key,
            event: self.record.event,
            event_type: self.record.event_type.clone(),
            occurred_at: self.record.occurred_at,
            progress: DeliveryProgress { attempts: self.record.attempts, first_attempt_at },
            body: self.body.clone(),
        }
    }

    pub(in crate::memory) fn finish(&mut self, result: &AttemptResult) {
        match result.change {
            DeliveryChange::Deliver => self.record.state = DeliveryState::Delivered,
            DeliveryChange::Exhaust => self.record.state = DeliveryState::Exhausted,
            DeliveryChange::RetryAt(at) => self.next_at = at,
            DeliveryChange::PostponeTo(at) => {
                self.next_at = at;
                self.record.attempts -= 1;
                self.first_attempt_at.take_if(|_| self.record.attempts == 0);
                return;
            }
        }
        self.record.last_attempt_at = Some(result.at);
        self.record.last_status = result.status;
        self.record.last_error.clone_from(&result.error);
    }

    pub(in crate::memory) fn replay(&mut self, now: Timestamp) {
        self.record.state = DeliveryState::Pending;
        self.record.attempts = 0;
        (self.pending_since, self.next_at, self.first_attempt_at) = (now, now, None);
    }

    pub(in crate::memory) fn to_record(&self) -> DeliveryRecord {
        let next_attempt_at = self.is_pending().then_some(self.next_at);
        DeliveryRecord { next_attempt_at, ..self.record.clone() }
    }
}
