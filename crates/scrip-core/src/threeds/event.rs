//! What is to be told of a session, kept until somebody delivers it.

use scrip_seal::{Purpose, Secret};
use scrip_threeds::{
    code::Status,
    session::Effect,
    webhook::{self, Actor, EventData, EventType, SessionEvent, SessionFacts},
};
use uuid::Uuid;

use crate::{
    Error, Timestamp, Vault,
    id::random_uuid,
    policy::{Caller, Origin, Tenant},
    threeds::{
        SessionBody, SessionRecord,
        event_record::{EventRecord, place},
    },
};

/// Who brought it about: a caller, or somebody without a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause<'a> {
    Caller(&'a Caller),
    Outsider(&'a Origin),
}

/// A step of a session, of which its events tell.
pub(crate) struct SessionStep<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) tenant: &'a Tenant,
    pub(crate) record: &'a SessionRecord,
    pub(crate) body: &'a SessionBody,
    pub(crate) cause: Cause<'a>,
    pub(crate) now: Timestamp,
}

impl SessionStep<'_> {
    /// The events among the effects of the step.
    pub(crate) fn events(&self, effects: &[Effect]) -> Result<Vec<EventRecord>, Error> {
        let mut events = Vec::new();
        for effect in effects {
            let Effect::Emit { event, status } = effect else { continue };
            let event = self.event(*event, *status)?;
            events.push(seal(self.vault, self.tenant, &event, self.now)?);
        }
        Ok(events)
    }

    fn event(&self, kind: EventType, status: Option<Status>) -> Result<SessionEvent, Error> {
        let Self { vault, tenant, record, body, cause, now } = self;
        let (token_id, token_intent_id) = body.card()?.ids();
        let expires_at = body.ends_at().map(|_| body.expires_at().to_string());
        let facts = SessionFacts {
            id: record.id.to_string(),
            kind: body.state.kind.name().to_owned(),
            tenant_id: tenant.id.to_string(),
            origin: webhook::Origin {
                created_at: record.created_at.to_string(),
                created_by: record.created_by.to_string(),
                device: Some(body.device.name().to_owned()),
                expires_at,
                token_id,
                token_intent_id,
                card_brand: body.rails.first().map(|it| it.scheme.name().to_owned()),
            },
        };
        let (actor, trace) = match cause {
            Cause::Outsider(origin) => (None, &origin.trace),
            Cause::Caller(caller) => {
                let id = caller.application();
                let name =
                    tenant.applications.get(&id).map(|it| it.record.name.as_str().to_owned());
                let actor = Actor { id: id.to_string(), kind: "application".to_owned(), name };
                (Some(actor), &caller.origin().trace)
            }
        };
        Ok(SessionEvent {
            id: random_uuid(vault.chance).to_string(),
            kind,
            timestamp: now.to_string(),
            tenant_id: tenant.id.to_string(),
            trace_id: Some(trace.to_string()).filter(|it| !it.is_empty()),
            data: EventData { session: kind.payload(facts, status), actor },
        })
    }
}

fn seal(
    vault: &Vault,
    tenant: &Tenant,
    event: &SessionEvent,
    at: Timestamp,
) -> Result<EventRecord, Error> {
    let id = Uuid::try_parse(&event.id).unwrap_or_else(|_| random_uuid(vault.chance));
    let mut bytes = Vec::with_capacity(2048);
    serde_json::to_writer(&mut bytes, event).map_err(|_| Error::Internal("event".into()))?;
    let body = tenant.keys.seal(Purpose::Data, &place(tenant.id, id, at), &Secret::new(bytes));
    Ok(EventRecord { tenant: tenant.id, id, at, body })
}
