//! Get Session.

use crate::{
    Vault,
    audit::{Operation, trail::Seen},
    caller::Caller,
    error::Error,
    id::SessionId,
    permission::Permission,
    threeds::{OpenedSession, SessionView, find_held},
};

/// # Errors
/// There is no such session, it has expired, or the read cannot be recorded.
pub async fn get_session(
    vault: &Vault,
    caller: &Caller,
    id: SessionId,
) -> Result<SessionView, Error> {
    let OpenedSession { held, .. } = find_held(vault, caller, Permission::SessionRead, id).await?;
    let view = SessionView::of(vault, &held)?;
    let recorded = Seen::new(id.to_string(), "read");
    vault.record_seen(caller, Operation::GetSession, vec![recorded]).await?;
    Ok(view)
}
