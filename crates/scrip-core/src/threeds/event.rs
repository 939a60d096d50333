//! What is to be told of a session, kept until somebody delivers it.

use std::time::Duration;

use scrip_seal::{Place, Purpose, Sealed, Secret};
use scrip_threeds::{
    code::Status,
    session::Effect,
    webhook::{Actor, EventData, EventType, SessionEvent, SessionFacts},
};
use uuid::Uuid;

use crate::{
    Vault,
    error::Error,
    id::{TenantId, random_uuid},
    policy::{
        caller::{Caller, Origin},
        tenant::Tenant,
    },
    threeds::{CardReference, SessionBody, SessionRecord},
    time::Timestamp,
};

/// Nobody is told of what is older.
pub const EVENT_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An event's row, in the order of which it is delivered. Its body is the event as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    pub tenant: TenantId,
    pub id: Uuid,
    pub at: Timestamp,
    pub body: Sealed,
}

/// Who brought it about: a caller, or somebody without a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause<'a> {
    Caller(&'a Caller),
    Outsider(&'a Origin),
}

/// The events among the effects of a step.
pub(crate) fn events(
    vault: &Vault,
    tenant: &Tenant,
    (record, body): (&SessionRecord, &SessionBody),
    effects: &[Effect],
    (cause, now): (Cause<'_>, Timestamp),
) -> Result<Vec<EventRecord>, Error> {
    let mut events = Vec::new();
    for effect in effects {
        let Effect::Emit { event, status } = effect else { continue };
        let told = tell(vault, tenant, (record, body), (*event, *status), (cause, now))?;
        events.push(seal(vault, tenant, &told, now)?);
    }
    Ok(events)
}

fn tell(
    vault: &Vault,
    tenant: &Tenant,
    (record, body): (&SessionRecord, &SessionBody),
    (kind, status): (EventType, Option<Status>),
    (cause, now): (Cause<'_>, Timestamp),
) -> Result<SessionEvent, Error> {
    let (token_id, token_intent_id) = match body.card()? {
        CardReference::Token(id) => (Some(id.as_str().to_owned()), None),
        CardReference::TokenIntent(id) => (None, Some(id.to_string())),
    };
    let expires_at = body.ends_at().map(|_| body.expires_at().to_string());
    let facts = SessionFacts {
        id: record.id.to_string(),
        kind: body.state.kind.name().to_owned(),
        tenant_id: tenant.id.to_string(),
        created_at: record.created_at.to_string(),
        created_by: record.created_by.to_string(),
        device: Some(body.device.name().to_owned()),
        expires_at,
        token_id,
        token_intent_id,
        card_brand: body.rails.first().map(|it| it.scheme.name().to_owned()),
    };
    let (actor, trace) = match cause {
        Cause::Outsider(origin) => (None, &origin.trace),
        Cause::Caller(caller) => {
            let id = caller.application();
            let name = tenant.applications.get(&id).map(|it| it.record.name.as_str().to_owned());
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
        data: EventData { session: kind.payload(&facts, status), actor },
    })
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

impl EventRecord {
    /// What is to be delivered.
    ///
    /// # Errors
    /// It was altered, or belongs elsewhere.
    pub fn open(&self, tenant: &Tenant) -> Result<SessionEvent, Error> {
        let place = place(self.tenant, self.id, self.at);
        let secret = tenant.keys.open(Purpose::Data, &place, &self.body)?;
        let not_ours = |_| Error::Internal("an event is not one of ours".into());
        serde_json::from_slice(secret.expose()).map_err(not_ours)
    }
}

fn place(tenant: TenantId, id: Uuid, at: Timestamp) -> Place {
    Place::new("session.event").bytes(tenant.0.as_bytes()).bytes(id.as_bytes()).number(at.unix_ms)
}
