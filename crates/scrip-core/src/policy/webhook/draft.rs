//! The attributes of a webhook that a client chooses.

use crate::policy::{
    DisplayName,
    destination::DestinationUrl,
    webhook::{EventList, NotifyEmail, WebhookStatus},
};

/// A parsed request that creates or replaces a webhook.
#[derive(Debug, Clone)]
pub struct WebhookDraft {
    pub name: DisplayName,
    pub url: DestinationUrl,
    pub events: EventList,
    pub notify_email: Option<NotifyEmail>,
    /// `None` keeps the status: a client that does not know the attribute does not enable a webhook
    /// by accident. A new webhook is enabled.
    pub status: Option<WebhookStatus>,
}
