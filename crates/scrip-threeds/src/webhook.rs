//! Webhook events of a session. The attribute names differ from those of the session itself
//! (`created_at`, not `created_date`).

use serde::{Deserialize, Serialize};

use crate::code::{Status, codes};

codes! {
    /// The types of events.
    pub enum WebhookEventType {
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

/// The data of a session from which events are built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSession {
    pub id: String,
    pub kind: String,
    pub tenant_id: String,
    pub origin: WebhookSessionOrigin,
}

/// The session in an event. Each event type has only a part of the attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSessionPayload {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_status: Option<String>,
    #[serde(flatten)]
    pub origin: Option<WebhookSessionOrigin>,
}

/// The creation data of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSessionOrigin {
    pub created_at: String,
    pub created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    pub expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_intent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_brand: Option<String>,
}

/// The parts of an event's payload.
struct PayloadParts {
    tenant: bool,
    origin: bool,
    status: bool,
}

impl WebhookEventType {
    fn payload_parts(self) -> PayloadParts {
        let (tenant, origin, status) = match self {
            Self::Created | Self::ChallengeResultRetrieved => (true, true, false),
            Self::MethodCompleted | Self::DecoupledChallengeNotification => (true, false, false),
            Self::Authenticated => (false, true, true),
            Self::ChallengeCompleted => (true, false, true),
        };
        PayloadParts { tenant, origin, status }
    }

    /// The session in this event. A completed challenge was successful or failed; the browser
    /// reports no other status.
    pub fn payload(self, session: WebhookSession, status: Option<Status>) -> WebhookSessionPayload {
        let parts = self.payload_parts();
        let status = status.map(|it| it.name().to_owned());
        WebhookSessionPayload {
            id: session.id,
            kind: session.kind,
            tenant_id: parts.tenant.then_some(session.tenant_id),
            authentication_status: status.filter(|_| parts.status),
            origin: parts.origin.then_some(session.origin),
        }
    }
}

/// Who caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookActor {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The data of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEventData {
    pub session: WebhookSessionPayload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<WebhookActor>,
}

/// An event as stored until it is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookEvent {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: WebhookEventType,
    pub timestamp: String,
    pub tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    pub data: WebhookEventData,
}

/// An event as delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookDelivery {
    pub event: WebhookEvent,
    pub delivered_at: String,
}

#[cfg(test)]
mod tests;
