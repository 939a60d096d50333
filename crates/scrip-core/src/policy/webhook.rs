//! Webhooks: subscriptions of a tenant to events, which the vault sends to a URL.
//!
//! A webhook is a signed row of the policy of its tenant: an attacker with write access to the
//! database can neither redirect events nor read the secret that signs them.

pub mod details;
pub mod event_types;
pub mod notify_email;
pub mod record;
pub mod secrets;

pub use self::{
    details::{WebhookDetails, WebhookDraft, WebhookSettings},
    event_types::{EventList, EventTypes},
    notify_email::NotifyEmail,
    record::{WebhookRecord, WebhookStatus},
    secrets::{PreviousSecret, SECRET_OVERLAP, WebhookSecrets},
};
