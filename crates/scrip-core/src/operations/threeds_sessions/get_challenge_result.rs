//! Get Challenge Result. It emits an event, so it is a write.

use scrip_threeds::session::StateMachineEvent;

use crate::{
    Error, Vault,
    change::ChangeOutcome,
    policy::Caller,
    threeds::AuthenticationView,
    threeds_session::{
        SESSION_ATTEMPTS_MAX, SessionChange, load_session, rejection_error, session_conflict_error,
    },
    types::{Operation, Permission, id::ThreeDsSessionId},
};

/// Returns the result of a challenge.
/// Errors: there is no such session, or it has no challenge result (yet).
pub async fn get_challenge_result(
    vault: &Vault,
    caller: &Caller,
    id: ThreeDsSessionId,
) -> Result<AuthenticationView, Error> {
    for _ in 0..SESSION_ATTEMPTS_MAX {
        let permission = Permission::ThreeDsSessionAuthenticate;
        let opened = load_session(vault, caller, permission, id).await?;
        opened.check_number()?;
        let session = opened.session;
        let now = vault.clock.now();
        let (mut next, effects) = session
            .apply_event(&StateMachineEvent::ResultRequested, now)
            .map_err(|it| rejection_error(&it))?;
        let authentication = next.body.state.challenge_result().cloned();
        let authentication = authentication.map_err(|it| rejection_error(&it))?;
        let card = next.body.card()?;
        let change = SessionChange::new(caller, Operation::GetChallengeResult, "read", now);
        if next.write(vault, &effects, change).await? == ChangeOutcome::Done {
            return Ok(AuthenticationView { session_id: id, card, authentication });
        }
    }
    Err(session_conflict_error())
}
