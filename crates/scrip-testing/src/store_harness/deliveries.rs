//! The methods of a store for deliveries with default arguments for most tests.

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    events::{DeliveryRecord, NewDelivery, WebhookKey},
    policy::PolicyPermit,
    types::id::{EventId, WebhookId},
};
use scrip_seal::Sealed;
use uuid::Uuid;

use crate::store_harness::StoreHarness;

/// The id of an event at this time. Of two events at the same time, the one with the greater number
/// is the later one.
pub fn event_id(at: Timestamp, number: u8) -> EventId {
    let mut bytes = *EventId::first_at(at).0.as_bytes();
    bytes[15] = number;
    EventId(Uuid::from_bytes(bytes))
}

impl StoreHarness {
    /// The webhook of sample deliveries. It has no row.
    pub fn webhook_key(&self) -> WebhookKey {
        let webhook = WebhookId(Uuid::from_bytes([9; 16]));
        WebhookKey { tenant: self.caller.tenant().id, webhook }
    }

    pub fn policy_permit(&self) -> PolicyPermit {
        PolicyPermit::for_operator(Arc::clone(self.caller.principal().tenant()))
    }

    /// A sample delivery of an event that happens now. Its body is not sealed.
    pub fn new_delivery(&self, number: u8) -> NewDelivery {
        NewDelivery {
            key: self.webhook_key(),
            event: event_id(self.now(), number),
            event_type: "token.created",
            occurred_at: self.now(),
            body: Sealed::from_stored(vec![number; 20]),
        }
    }

    /// The deliveries of the sample webhook, oldest event first.
    pub async fn list_deliveries(&self) -> Vec<DeliveryRecord> {
        let (permit, webhook) = (self.policy_permit(), self.webhook_key().webhook);
        let deliveries = self.store().list_deliveries(&permit, webhook, None, 10_000).await;
        deliveries.unwrap().into_iter().rev().collect()
    }
}
