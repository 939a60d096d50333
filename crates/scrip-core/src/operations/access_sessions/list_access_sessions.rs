//! List Access Sessions: for the operator.

use crate::{
    Error, Vault,
    policy::{AccessSessionRecord, PolicyPermit},
    types::Operation,
};

/// The maximum number of listed sessions of a tenant.
pub const LISTED_SESSIONS_MAX: usize = 1000;

/// The live sessions of the tenant, the one that expires last first, at most
/// [`LISTED_SESSIONS_MAX`]. Sessions with a deleted authorizing key are not included.
///
/// Errors: the store is unavailable, a row was altered, or the read cannot be recorded.
pub async fn list_access_sessions(
    vault: &Vault,
    permit: &PolicyPermit,
) -> Result<Vec<AccessSessionRecord>, Error> {
    let (tenant, now) = (permit.tenant(), vault.clock.latest());
    let rows = vault.store.list_access_sessions(permit, now, LISTED_SESSIONS_MAX).await?;
    if !rows.iter().all(|it| it.has_valid_mac(&tenant.keys)) {
        return Err(Error::Internal("the row of an access session was altered".into()));
    }
    vault.record_policy_read(permit, Operation::ListAccessSessions, "").await?;
    let sessions = rows.into_iter().map(|it| it.record);
    Ok(sessions.filter(|it| it.is_authorizing_key_live(tenant)).collect())
}
