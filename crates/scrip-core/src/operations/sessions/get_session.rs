//! Get Session.

use crate::{
    Error, Vault,
    audit::{Operation, Seen},
    id::SessionId,
    policy::{Caller, Permission},
    threeds::{SessionView, find_held},
};

/// # Errors
/// There is no such session, it has expired, its outcome is for another number than the card has
/// now, or the read cannot be recorded.
pub async fn get_session(
    vault: &Vault,
    caller: &Caller,
    id: SessionId,
) -> Result<SessionView, Error> {
    let opened = find_held(vault, caller, Permission::SessionRead, id).await?;
    let held = &opened.held;
    if held.body.state.authentication().is_some() {
        opened.check_number()?;
    }
    let view = SessionView::of(vault, held)?;
    let recorded = Seen::new(id.to_string(), "read");
    vault.record_seen(caller, Operation::GetSession, vec![recorded]).await?;
    Ok(view)
}
