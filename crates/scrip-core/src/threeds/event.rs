//! Webhook events of a 3DS session, stored until they are delivered.

use scrip_seal::{Purpose, Secret};
use scrip_threeds::{
    code::Status,
    session::StateMachineEffect,
    webhook::{
        self, WebhookActor, WebhookEvent, WebhookEventData, WebhookEventType, WebhookSession,
    },
};
use uuid::Uuid;

use crate::{
    Error, Timestamp, Vault,
    id::random_uuid,
    policy::{Caller, RequestOrigin, Tenant},
    threeds::{
        ThreeDsSessionBody, ThreeDsSessionRecord,
        event_record::{ThreeDsEventRecord, event_place},
    },
};

/// The cause of an event: a caller, or an unauthenticated request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventCause<'a> {
    Caller(&'a Caller),
    Unauthenticated(&'a RequestOrigin),
}

/// A transition of a session, with its events.
pub(crate) struct SessionTransition<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) tenant: &'a Tenant,
    pub(crate) record: &'a ThreeDsSessionRecord,
    pub(crate) body: &'a ThreeDsSessionBody,
    pub(crate) cause: EventCause<'a>,
    pub(crate) now: Timestamp,
}

impl SessionTransition<'_> {
    /// Builds and seals the events among the effects of the transition.
    pub(crate) fn seal_events(
        &self,
        effects: &[StateMachineEffect],
    ) -> Result<Vec<ThreeDsEventRecord>, Error> {
        let mut events = Vec::new();
        for effect in effects {
            let StateMachineEffect::Emit { event, status } = effect else { continue };
            let event = self.build_event(*event, *status)?;
            events.push(seal_event(self.vault, self.tenant, &event, self.now)?);
        }
        Ok(events)
    }

    fn build_event(
        &self,
        kind: WebhookEventType,
        status: Option<Status>,
    ) -> Result<WebhookEvent, Error> {
        let Self { vault, tenant, record, body, cause, now } = self;
        let (token_id, token_intent_id) = body.card()?.ids();
        let expires_at = body.deletes_at().map(|_| body.expires_at().to_string());
        let session = WebhookSession {
            id: record.id.to_string(),
            kind: body.state.kind.name().to_owned(),
            tenant_id: tenant.id.to_string(),
            origin: webhook::WebhookSessionOrigin {
                created_at: record.created_at.to_string(),
                created_by: record.created_by.to_string(),
                device: Some(body.device.name().to_owned()),
                expires_at,
                token_id,
                token_intent_id,
                card_brand: body.schemes.first().map(|it| it.scheme.name().to_owned()),
            },
        };
        let (actor, trace) = match cause {
            EventCause::Unauthenticated(origin) => (None, &origin.trace),
            EventCause::Caller(caller) => {
                let id = caller.application();
                let name =
                    tenant.applications.get(&id).map(|it| it.record.name.as_str().to_owned());
                let actor =
                    WebhookActor { id: id.to_string(), kind: "application".to_owned(), name };
                (Some(actor), &caller.origin().trace)
            }
        };
        Ok(WebhookEvent {
            id: random_uuid(vault.fill_random).to_string(),
            kind,
            timestamp: now.to_string(),
            tenant_id: tenant.id.to_string(),
            trace_id: Some(trace.to_string()).filter(|it| !it.is_empty()),
            data: WebhookEventData { session: kind.payload(session, status), actor },
        })
    }
}

fn seal_event(
    vault: &Vault,
    tenant: &Tenant,
    event: &WebhookEvent,
    at: Timestamp,
) -> Result<ThreeDsEventRecord, Error> {
    let id = Uuid::try_parse(&event.id).unwrap_or_else(|_| random_uuid(vault.fill_random));
    let mut bytes = Vec::with_capacity(2048);
    serde_json::to_writer(&mut bytes, event).map_err(|_| Error::Internal("event".into()))?;
    let body =
        tenant.keys.seal(Purpose::Data, &event_place(tenant.id, id, at), &Secret::new(bytes));
    Ok(ThreeDsEventRecord { tenant: tenant.id, id, at, body })
}
