//! The data of events of 3DS sessions.

use scrip_threeds::webhook::{WebhookSessionOrigin, WebhookSessionPayload};

use crate::events::{EventData, payload::PayloadAttributes};

/// All events of 3DS sessions. The payload has only the attributes of its event type.
pub(crate) fn describe_threeds_session(payload: &WebhookSessionPayload) -> EventData {
    let session = PayloadAttributes::with_id(&payload.id)
        .text("type", &payload.kind)
        .optional_text("tenant_id", payload.tenant_id.as_ref())
        .optional_text("authentication_status", payload.authentication_status.as_ref());
    let session = match &payload.origin {
        Some(origin) => add_origin(session, origin),
        None => session,
    };
    EventData::new("session", session)
}

fn add_origin(session: PayloadAttributes, origin: &WebhookSessionOrigin) -> PayloadAttributes {
    session
        .text("created_at", &origin.created_at)
        .text("created_by", &origin.created_by)
        .optional_text("device", origin.device.as_ref())
        .text("expires_at", &origin.expires_at)
        .optional_text("token_id", origin.token_id.as_ref())
        .optional_text("token_intent_id", origin.token_intent_id.as_ref())
        .optional_text("card_brand", origin.card_brand.as_ref())
}
