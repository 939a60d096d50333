//! Notify Challenge: a browser says that the challenge is over. It is told on, and decides nothing.

use scrip_threeds::{
    code::{Status, YesNo},
    encoding::decode_cres,
    session::StateMachineEvent,
};

use crate::{
    Error, FieldError, Vault,
    audit::Operation,
    id::ThreeDsSessionId,
    policy::{Directory, RequestOrigin},
    threeds::{ChallengeMode, apply_notification},
};

/// What the page has to say to the one that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeNotification {
    pub is_completed: bool,
    pub is_successful: bool,
    pub mode: ChallengeMode,
}

/// # Errors
/// There is no such session, it was not challenged, or the form is not about it.
pub async fn notify_challenge(
    vault: &Vault,
    directory: &Directory,
    origin: &RequestOrigin,
    id: ThreeDsSessionId,
    response: &str,
) -> Result<ChallengeNotification, Error> {
    let wrong = || FieldError::new("cres", "is not about a challenge of this session");
    let response = decode_cres(response).map_err(|_| wrong())?;
    let is_completed = response.completed == YesNo::Yes;
    let event = StateMachineEvent::ChallengeNotification { response: Box::new(response) };
    let outcome =
        apply_notification(vault, directory, Operation::NotifyChallenge, origin, id, &event)
            .await?;
    let (session, _) = outcome.map_err(|_| wrong())?;
    // A browser can send any message, so only the result of the directory server counts.
    let result = session.body.state.challenge_result().ok().map(|it| it.status);
    let has_passed = matches!(result, Some(Status::Successful | Status::Attempted));
    let is_successful = is_completed && has_passed;
    Ok(ChallengeNotification { is_completed, is_successful, mode: session.body.challenge_mode })
}
