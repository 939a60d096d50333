//! What listeners are told of a session. The names are those of the events, which differ from the
//! session's own (`created_at`, not `created_date`).

use serde::{Deserialize, Serialize};

use crate::code::{Status, codes};

codes! {
    /// The types of events.
    pub enum EventType {
        Created = "3ds.session.created" "3ds.session.created",
        MethodCompleted = "3ds.session.method-completed" "3ds.session.method-completed",
        Authenticated = "3ds.session.authenticated" "3ds.session.authenticated",
        ChallengeCompleted = "3ds.session.challenge-completed" "3ds.session.challenge-completed",
        DecoupledChallengeNotification = "3ds.session.decoupled-challenge-notification"
            "3ds.session.decoupled-challenge-notification",
        ChallengeResultRetrieved = "3ds.session.challenge-result-retrieved"
            "3ds.session.challenge-result-retrieved",
    }
}

/// All that an event may tell of a session, as the vault has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFacts {
    pub id: String,
    pub kind: String,
    pub tenant_id: String,
    pub origin: Origin,
}

/// What an event tells of its session: each type leaves out what is not its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPayload {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_status: Option<String>,
    #[serde(flatten)]
    pub origin: Option<Origin>,
}

/// Where a session came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub created_at: String,
    pub created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_intent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_brand: Option<String>,
}

/// Which parts an event has.
struct Parts {
    tenant: bool,
    origin: bool,
    status: bool,
}

impl EventType {
    fn parts(self) -> Parts {
        let (tenant, origin, status) = match self {
            Self::Created | Self::ChallengeResultRetrieved => (true, true, false),
            Self::MethodCompleted | Self::DecoupledChallengeNotification => (true, false, false),
            Self::Authenticated => (false, true, true),
            Self::ChallengeCompleted => (true, false, true),
        };
        Parts { tenant, origin, status }
    }

    /// The session as this event tells it. A challenge that is over was successful or failed; the
    /// other statuses are not a browser's to tell.
    #[must_use]
    pub fn payload(self, facts: SessionFacts, status: Option<Status>) -> SessionPayload {
        let parts = self.parts();
        let status = status.map(|it| it.name().to_owned());
        SessionPayload {
            id: facts.id,
            kind: facts.kind,
            tenant_id: parts.tenant.then_some(facts.tenant_id),
            authentication_status: status.filter(|_| parts.status),
            origin: parts.origin.then_some(facts.origin),
        }
    }
}

/// Who caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventData {
    pub session: SessionPayload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
}

/// An event, as it is kept until it is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEvent {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: EventType,
    pub timestamp: String,
    pub tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    pub data: EventData,
}

/// An event on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub event: SessionEvent,
    pub delivered_at: String,
}

#[cfg(test)]
mod tests;
