//! A delivery: one event for one webhook, stored in the transaction of the event.

use scrip_seal::{Place, Purpose, Sealed, Secret};

use crate::{
    Error, Timestamp,
    events::{DeliveryProgress, EventJson},
    policy::Tenant,
    types::id::{EventId, TenantId, WebhookId},
};

words! {
    /// How far a delivery got.
    pub enum DeliveryState {
        /// An attempt follows.
        Pending = "pending",
        /// The receiver took the event.
        Delivered = "delivered",
        /// The period of the delivery is over. Only a replay delivers the event.
        Exhausted = "exhausted",
    }
}

/// The webhook of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookKey {
    pub tenant: TenantId,
    pub webhook: WebhookId,
}

/// A delivery that is not stored yet. The body is sealed for its event and its webhook, so a row
/// that is copied to another webhook cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    pub key: WebhookKey,
    pub event: EventId,
    /// The name of the event type.
    pub event_type: &'static str,
    pub occurred_at: Timestamp,
    pub body: Sealed,
}

impl NewDelivery {
    /// Seals an event for one webhook.
    pub(crate) fn seal(
        tenant: &Tenant,
        webhook: WebhookId,
        event: EventId,
        event_type: &'static str,
        occurred_at: Timestamp,
        json: &EventJson,
    ) -> Self {
        let key = WebhookKey { tenant: tenant.id, webhook };
        let place = body_place(key, event, event_type, occurred_at);
        let plaintext = Secret::new(json.as_str().as_bytes().to_vec());
        let body = tenant.keys.seal(Purpose::Data, &place, &plaintext);
        Self { key, event, event_type, occurred_at, body }
    }
}

/// A delivery that a node has claimed for its next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    pub key: WebhookKey,
    pub event: EventId,
    pub event_type: String,
    pub occurred_at: Timestamp,
    /// Includes the attempt of this claim. A result is stored only while this number is current:
    /// the result of a claim that has ended cannot replace a later one.
    pub progress: DeliveryProgress,
    pub body: Sealed,
}

impl ClaimedDelivery {
    /// Decrypts the event.
    /// Errors: the row was altered or moved.
    pub fn open(&self, tenant: &Tenant) -> Result<EventJson, Error> {
        let place = body_place(self.key, self.event, &self.event_type, self.occurred_at);
        let secret = tenant.keys.open(Purpose::Data, &place, &self.body)?;
        let invalid = || Error::Internal("a stored event cannot be parsed".into());
        let text = std::str::from_utf8(secret.expose()).map_err(|_| invalid())?;
        EventJson::from_stored(text.to_owned()).ok_or_else(invalid)
    }
}

/// The result of the attempt of a claimed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptResult {
    pub event: EventId,
    /// [`ClaimedDelivery::progress`] of the claim.
    pub attempts: u32,
    pub change: DeliveryChange,
    pub at: Timestamp,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Why there is no answer.
    pub error: Option<String>,
}

/// The effect of an attempt on its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryChange {
    Deliver,
    RetryAt(Timestamp),
    Exhaust,
    /// Nothing was sent: the attempt is not counted.
    PostponeTo(Timestamp),
}

/// A delivery as its owner sees it, without the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    pub event: EventId,
    pub event_type: String,
    pub occurred_at: Timestamp,
    pub state: DeliveryState,
    pub attempts: u32,
    pub last_attempt_at: Option<Timestamp>,
    /// For a pending delivery.
    pub next_attempt_at: Option<Timestamp>,
    pub last_status: Option<u16>,
    pub last_error: Option<String>,
}

pub(crate) fn body_place(
    key: WebhookKey,
    event: EventId,
    event_type: &str,
    occurred_at: Timestamp,
) -> Place {
    Place::new("webhook.delivery")
        .bytes(key.tenant.0.as_bytes())
        .bytes(key.webhook.0.as_bytes())
        .bytes(event.0.as_bytes())
        .text(event_type)
        .number(occurred_at.unix_ms)
}
