//! Notify Challenge: a browser says that the challenge is over. It is told on, and decides nothing.

use scrip_threeds::{
    code::{Status, YesNo},
    encoding::read_cres,
    session::Event,
};

use crate::{
    Error, FieldError, Vault,
    audit::Operation,
    id::SessionId,
    policy::{Directory, Origin},
    threeds::{ChallengeMode, notify},
};

/// What the page has to say to the one that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeNotified {
    pub is_completed: bool,
    pub is_successful: bool,
    pub mode: ChallengeMode,
}

/// # Errors
/// There is no such session, it was not challenged, or the form is not about it.
pub async fn notify_challenge(
    vault: &Vault,
    directory: &Directory,
    origin: &Origin,
    id: SessionId,
    response: &str,
) -> Result<ChallengeNotified, Error> {
    let wrong = || FieldError::new("cres", "is not about a challenge of this session");
    let response = read_cres(response).map_err(|_| wrong())?;
    let is_completed = response.completed == YesNo::Yes;
    let event = Event::ChallengeNotification { response: Box::new(response) };
    let told = notify(vault, directory, Operation::NotifyChallenge, origin, id, &event).await?;
    let (held, _) = told.map_err(|_| wrong())?;
    // A browser can send any message, so only the result of the directory server counts.
    let result = held.body.state.challenge_result().ok().map(|it| it.status);
    let has_passed = matches!(result, Some(Status::Successful | Status::Attempted));
    let is_successful = is_completed && has_passed;
    Ok(ChallengeNotified { is_completed, is_successful, mode: held.body.challenge_mode })
}
