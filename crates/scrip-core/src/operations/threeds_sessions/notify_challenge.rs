//! Notify Challenge: a browser reports that the challenge is over. The report emits an event and
//! decides nothing.

use scrip_threeds::{
    code::{Status, YesNo},
    encoding::decode_cres,
    session::StateMachineEvent,
};

use crate::{
    Error, FieldError, Vault,
    policy::{Directory, RequestOrigin},
    threeds::ChallengeMode,
    threeds_session::apply_notification,
    types::{Operation, id::ThreeDsSessionId},
};

/// The result for the page that opened the challenge window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeNotification {
    pub is_completed: bool,
    pub is_successful: bool,
    pub mode: ChallengeMode,
}

/// Errors: there is no such session, it was not challenged, or the form belongs to another session.
pub async fn notify_challenge(
    vault: &Vault,
    directory: &Directory,
    origin: &RequestOrigin,
    id: ThreeDsSessionId,
    response: &str,
) -> Result<ChallengeNotification, Error> {
    let mismatch_error = || FieldError::new("cres", "does not match a challenge of this session");
    let response = decode_cres(response).map_err(|_| mismatch_error())?;
    let is_completed = response.completed == YesNo::Yes;
    let event = StateMachineEvent::ChallengeNotification { response: Box::new(response) };
    let outcome =
        apply_notification(vault, directory, Operation::NotifyChallenge, origin, id, &event)
            .await?;
    let (session, _) = outcome.map_err(|_| mismatch_error())?;
    // A browser can send any message, so only the result of the directory server counts.
    let result = session.body.state.challenge_result().ok().map(|it| it.status);
    let is_authenticated = matches!(result, Some(Status::Successful | Status::Attempted));
    let is_successful = is_completed && is_authenticated;
    Ok(ChallengeNotification { is_completed, is_successful, mode: session.body.challenge_mode })
}
