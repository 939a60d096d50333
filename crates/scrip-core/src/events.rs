//! Events of the vault and their deliveries to webhooks, without storage and without HTTP.
//!
//! [`Event`] is what happened, [`payload`] builds its data from the types of the vault, and
//! [`delivery_schedule`] decides after each attempt whether and when the next one follows. Events
//! contain ids, types and metadata, never data of tokens and never masks.

pub mod attempt_outcome;
pub mod canonical_json;
pub mod delivery;
pub mod delivery_schedule;
pub mod envelope;
pub mod event_source;
pub mod expiry_events;
pub mod payload;

pub(crate) use self::event_source::EventSource;
pub use self::{
    attempt_outcome::AttemptOutcome,
    delivery::{
        AttemptResult, ClaimedDelivery, DeliveryChange, DeliveryRecord, DeliveryState, NewDelivery,
        WebhookKey,
    },
    delivery_schedule::{DeliveryProgress, NextAttempt},
    envelope::{Event, EventActor, EventJson},
    expiry_events::ExpiryEvents,
    payload::EventData,
};
