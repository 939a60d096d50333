//! The events of a 3DS session.

use scrip_threeds::session::StateMachineEffect;

use crate::{
    Error,
    events::{
        EventSource, NewDelivery,
        payload::threeds_session::{SessionFacts, describe_threeds_session},
    },
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
        let (token_id, token_intent_id) = body.card()?.ids();
        let facts = SessionFacts {
            id: record.id,
            kind: body.state.kind.name(),
            tenant_id: source.tenant.id,
            created_at: record.created_at,
            created_by: record.created_by,
            device: body.device.name(),
            expires_at: body.expires_at(),
            token_id,
            token_intent_id,
            card_brand: body.schemes.first().map(|it| it.scheme.name()),
        };
        let describe = || describe_threeds_session(&facts, *event, *status);
        deliveries.extend(source.raise(event_type, describe));
    }
    Ok(deliveries)
}
