//! List Access Sessions: for the operator.

use crate::{
    Error, Vault,
    audit::Operation,
    policy::{AccessSessionRecord, PolicyPermit},
};

/// How many sessions of a tenant are listed.
pub const LISTED_SESSIONS_MAX: usize = 1000;

/// The sessions of the tenant that have not ended, the longest-lived first, at most
/// [`SESSIONS_MAX`]. A session whose authorizing key was deleted is not among them.
///
/// # Errors
/// The store did not answer, a row was altered, or the read cannot be recorded.
pub async fn list_access_sessions(
    vault: &Vault,
    permit: &PolicyPermit,
) -> Result<Vec<AccessSessionRecord>, Error> {
    let (tenant, now) = (permit.tenant(), vault.clock.latest());
    let found = vault.store.list_access_sessions(permit, now, LISTED_SESSIONS_MAX).await?;
    if !found.iter().all(|it| it.has_valid_mac(&tenant.keys)) {
        return Err(Error::Internal("the row of an access session was altered".into()));
    }
    vault.record_policy_read(permit, Operation::ListAccessSessions, "").await?;
    let sessions = found.into_iter().map(|it| it.record);
    Ok(sessions.filter(|it| it.is_authorizing_key_live(tenant)).collect())
}
