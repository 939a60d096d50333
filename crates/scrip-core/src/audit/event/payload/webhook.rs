//! The data of events of webhooks.

use crate::{
    event::payload::{EventData, PayloadAttributes},
    webhook::WebhookRecord,
};

/// `webhook.test`: a client tests its receiver.
#[must_use]
pub fn describe_test(record: &WebhookRecord) -> EventData {
    let webhook = PayloadAttributes::with_id(record.id).text("name", record.name.as_str());
    EventData::new("webhook", webhook)
}
