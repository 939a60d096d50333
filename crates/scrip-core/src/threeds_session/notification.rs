//! Notifications of 3DS sessions by unauthenticated callers.

use scrip_threeds::session::{StateMachineEffect, StateMachineEvent, ThreeDsRejection};

use crate::{
    Error, Vault,
    audit::AuditRecord,
    change::ChangeOutcome,
    policy::{Actor, Directory, RequestOrigin},
    threeds_session::{
        LoadedSession, SESSION_ATTEMPTS_MAX, SessionChange, load_notified_session,
        session_conflict_error,
    },
    types::{Operation, id::ThreeDsSessionId},
};

/// Applies an event and writes the session. Returns the session and the effects, or the rejection
/// by the state machine.
pub(crate) async fn apply_notification(
    vault: &Vault,
    directory: &Directory,
    operation: Operation,
    origin: &RequestOrigin,
    id: ThreeDsSessionId,
    event: &StateMachineEvent,
) -> Result<Result<(LoadedSession, Vec<StateMachineEffect>), ThreeDsRejection>, Error> {
    for _ in 0..SESSION_ATTEMPTS_MAX {
        let (tenant, session) = load_notified_session(vault, directory, id).await?;
        let now = vault.clock.now();
        let (mut next, effects) = match session.apply_event(event, now) {
            Ok(transition) => transition,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if !next.needs_write(&session, &effects) {
            return Ok(Ok((next, effects)));
        }
        let key = &tenant.audit_key;
        let change = SessionChange {
            tenant: &tenant,
            audit: AuditRecord::for_request(Actor::Unauthenticated, operation, origin, key, now),
            outcome: "done",
            used_card: None,
            idempotency: None,
        };
        if next.write(vault, &effects, change).await? == ChangeOutcome::Done {
            return Ok(Ok((next, effects)));
        }
    }
    Err(session_conflict_error())
}
