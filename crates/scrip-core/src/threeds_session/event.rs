//! The events of a 3DS session.

use scrip_threeds::{
    session::StateMachineEffect,
    webhook::{WebhookSession, WebhookSessionOrigin},
};

use crate::{
    Error,
    events::{EventSource, NewDelivery, payload::threeds_session},
    threeds::{ThreeDsSessionBody, ThreeDsSessionRecord},
    types::EventType,
};

/// Builds the deliveries of the events among the effects of a transition.
pub(crate) fn raise_session_events(
    source: &EventSource<'_>,
    record: &ThreeDsSessionRecord,
    body: &ThreeDsSessionBody,
    effects: &[StateMachineEffect],
) -> Result<Vec<NewDelivery>, Error> {
    let mut deliveries = Vec::new();
    for effect in effects {
        let StateMachineEffect::Emit { event, status } = effect else { continue };
        let event_type = EventType::from(*event);
        // Most tenants want no event: the session is not described for them.
        if !source.tenant.wants_event(event_type) {
            continue;
        }
        let session = describe_session(source, record, body)?;
        deliveries.extend(source.raise(event_type, || {
            threeds_session::describe_threeds_session(&event.payload(session, *status))
        }));
    }
    Ok(deliveries)
}

fn describe_session(
    source: &EventSource<'_>,
    record: &ThreeDsSessionRecord,
    body: &ThreeDsSessionBody,
) -> Result<WebhookSession, Error> {
    let (token_id, token_intent_id) = body.card()?.ids();
    Ok(WebhookSession {
        id: record.id.to_string(),
        kind: body.state.kind.name().to_owned(),
        tenant_id: source.tenant.id.to_string(),
        origin: WebhookSessionOrigin {
            created_at: record.created_at.to_string(),
            created_by: record.created_by.to_string(),
            device: Some(body.device.name().to_owned()),
            expires_at: body.expires_at().to_string(),
            token_id,
            token_intent_id,
            card_brand: body.schemes.first().map(|it| it.scheme.name().to_owned()),
        },
    })
}
