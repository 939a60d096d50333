//! The data of events of 3DS sessions. The names differ from those of the session itself
//! (`created_at`, not `created_date`).

use scrip_threeds::{code::Status, session::WebhookEventType};

use crate::{
    Timestamp,
    events::{EventData, payload::PayloadAttributes},
    types::id::{ApplicationId, TenantId, ThreeDsSessionId},
};

/// The data of a session from which its events are built.
#[derive(Debug)]
pub(crate) struct SessionFacts {
    pub(crate) id: ThreeDsSessionId,
    pub(crate) kind: &'static str,
    pub(crate) tenant_id: TenantId,
    pub(crate) created_at: Timestamp,
    pub(crate) created_by: ApplicationId,
    pub(crate) device: &'static str,
    pub(crate) expires_at: Timestamp,
    pub(crate) token_id: Option<String>,
    pub(crate) token_intent_id: Option<String>,
    pub(crate) card_brand: Option<&'static str>,
}

/// The session in an event: each event type has only a part of the attributes. A completed challenge
/// was successful or failed; the browser reports no other status.
pub(crate) fn describe_threeds_session(
    facts: &SessionFacts,
    event: WebhookEventType,
    status: Option<Status>,
) -> EventData {
    let (has_tenant, has_origin, has_status) = match event {
        WebhookEventType::Created | WebhookEventType::ChallengeResultRetrieved => {
            (true, true, false)
        }
        WebhookEventType::MethodCompleted | WebhookEventType::DecoupledChallengeNotification => {
            (true, false, false)
        }
        WebhookEventType::Authenticated => (false, true, true),
        WebhookEventType::ChallengeCompleted => (true, false, true),
    };
    let mut session = PayloadAttributes::with_id(facts.id)
        .text("type", facts.kind)
        .optional_text("tenant_id", has_tenant.then_some(facts.tenant_id))
        .optional_text("authentication_status", status.filter(|_| has_status).map(Status::name));
    if has_origin {
        session = session
            .text("created_at", facts.created_at)
            .text("created_by", facts.created_by)
            .text("device", facts.device)
            .text("expires_at", facts.expires_at)
            .optional_text("token_id", facts.token_id.as_ref())
            .optional_text("token_intent_id", facts.token_intent_id.as_ref())
            .optional_text("card_brand", facts.card_brand);
    }
    EventData::new("session", session)
}
