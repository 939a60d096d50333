//! Raises events: builds the deliveries of an event for the webhooks that want it.

use std::sync::Arc;

use crate::{
    Error, Timestamp,
    audit::AuditRecord,
    events::{Event, EventActor, EventData, NewDelivery},
    policy::{Actor, SignedRow, Tenant, webhook::WebhookRecord},
    types::{
        EventType,
        id::{EventId, WebhookId},
    },
};

/// The type of the event that a client requests to test its receiver. No webhook can name it.
pub(crate) const TEST_EVENT_TYPE: &str = "webhook.test";

/// The origin of events: a request or an action of the vault, in one tenant.
#[derive(Debug, Clone)]
pub(crate) struct EventSource<'a> {
    pub tenant: &'a Tenant,
    pub actor: Actor,
    pub trace: Arc<str>,
    pub at: Timestamp,
    pub fill_random: fn(&mut [u8]),
}

impl<'a> EventSource<'a> {
    /// The origin of the change that an audit record describes.
    pub(crate) fn new(tenant: &'a Tenant, audit: &AuditRecord, fill_random: fn(&mut [u8])) -> Self {
        let (actor, trace) = (audit.actor, Arc::clone(&audit.trace));
        Self { tenant, actor, trace, at: audit.at, fill_random }
    }

    /// The deliveries of an event: one for each enabled webhook that wants it. Without such a
    /// webhook, `describe` is not called.
    pub(crate) fn raise(
        &self,
        event_type: EventType,
        describe: impl FnOnce() -> EventData,
    ) -> Vec<NewDelivery> {
        if !self.tenant.wants_event(event_type) {
            return Vec::new();
        }
        let webhooks = self.tenant.webhooks.values();
        let wanting = webhooks.filter(|it| it.wants_event(event_type));
        self.seal(event_type.as_str(), describe(), wanting.map(|it| it.id))
    }

    /// As [`EventSource::raise`], for webhooks that the tenant of this node may not have yet.
    /// Errors: the data of the event cannot be built.
    pub(crate) fn raise_for(
        &self,
        webhooks: &[SignedRow<WebhookRecord>],
        event_type: EventType,
        describe: impl FnOnce() -> Result<EventData, Error>,
    ) -> Result<Vec<NewDelivery>, Error> {
        let wants = |it: &&SignedRow<WebhookRecord>| it.record.wants_event(event_type);
        let wanting = webhooks.iter().filter(wants).map(|it| it.record.id);
        if wanting.clone().next().is_none() {
            return Ok(Vec::new());
        }
        Ok(self.seal(event_type.as_str(), describe()?, wanting))
    }

    /// The delivery of a test event to one webhook.
    pub(crate) fn raise_test(&self, webhook: WebhookId, data: EventData) -> Vec<NewDelivery> {
        self.seal(TEST_EVENT_TYPE, data, std::iter::once(webhook))
    }

    fn seal(
        &self,
        event_type: &'static str,
        data: EventData,
        webhooks: impl Iterator<Item = WebhookId>,
    ) -> Vec<NewDelivery> {
        let id = EventId::new(self.at, self.fill_random);
        let event = Event {
            id,
            event_type,
            at: self.at,
            tenant: self.tenant.id,
            trace: Arc::clone(&self.trace),
            actor: EventActor::new(self.actor, self.tenant),
            data,
        };
        let json = event.to_json();
        let seal =
            |webhook| NewDelivery::seal(self.tenant, webhook, id, event_type, self.at, &json);
        webhooks.map(seal).collect()
    }
}
