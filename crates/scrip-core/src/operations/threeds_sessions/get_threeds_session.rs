//! Get Session.

use crate::{
    Error, Vault,
    policy::Caller,
    read_log::ReadLogEntry,
    threeds::ThreeDsSessionView,
    threeds_session::load_session,
    types::{Operation, Permission, id::ThreeDsSessionId},
};

/// Errors: there is no such session, it expired, its outcome is for another number than the card
/// has now, or the read cannot be recorded.
pub async fn get_threeds_session(
    vault: &Vault,
    caller: &Caller,
    id: ThreeDsSessionId,
) -> Result<ThreeDsSessionView, Error> {
    let opened = load_session(vault, caller, Permission::ThreeDsSessionRead, id).await?;
    let session = &opened.session;
    if session.body.state.authentication().is_some() {
        opened.check_number()?;
    }
    let view = ThreeDsSessionView::new(vault, session)?;
    let entry = ReadLogEntry::new(id.to_string(), "read");
    vault.record_reads(caller, Operation::GetThreeDsSession, vec![entry]).await?;
    Ok(view)
}
