//! Get Challenge Result. That it was fetched is told to those who listen, so it is a write.

use scrip_threeds::session::Event;

use crate::{
    Error, Vault,
    audit::Operation,
    id::SessionId,
    policy::{Caller, Permission},
    store::Changed,
    threeds::{AuthenticationView, TRIES_MAX, Writing, find_held, not_possible, overtaken},
};

/// # Errors
/// There is no such session, or it has no result of a challenge (yet).
pub async fn get_challenge_result(
    vault: &Vault,
    caller: &Caller,
    id: SessionId,
) -> Result<AuthenticationView, Error> {
    for _ in 0..TRIES_MAX {
        let needed = Permission::SessionAuthenticate;
        let opened = find_held(vault, caller, needed, id).await?;
        opened.check_number()?;
        let held = opened.held;
        let now = vault.clock.now();
        let (mut next, effects) =
            held.after(&Event::ResultAsked, now).map_err(|it| not_possible(&it))?;
        let authentication = next.body.state.challenge_result().cloned();
        let authentication = authentication.map_err(|it| not_possible(&it))?;
        let card = next.body.card()?;
        let writing = Writing::new(caller, Operation::GetChallengeResult, "read", now);
        if next.write(vault, &effects, writing).await? == Changed::Done {
            return Ok(AuthenticationView { session_id: id, card, authentication });
        }
    }
    Err(overtaken())
}
