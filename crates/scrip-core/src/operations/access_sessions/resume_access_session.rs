//! From a session's key to its rights. The store is asked each time, so what happens to a session
//! anywhere counts at once everywhere.

use std::sync::Arc;

use crate::{
    Error, Vault,
    policy::{AccessSessionId, Directory, Principal, principal::DelegatedRights},
};

/// Nothing when there is no such session, when it or its application has ended, or when the API key
/// that authorized it was deleted.
///
/// # Errors
/// The store did not answer, or somebody altered the session.
pub async fn resume_access_session(
    vault: &Vault,
    directory: &Directory,
    key: &str,
) -> Result<Option<Principal>, Error> {
    let id = AccessSessionId(directory.digest(key));
    let Some(found) = vault.store.find_access_session(id).await? else { return Ok(None) };
    let record = &found.record;
    let Some(tenant) = directory.tenant(record.tenant) else { return Ok(None) };
    if record.id != id || !found.has_valid_mac(&tenant.keys) {
        return Err(Error::Internal("the row of an access session was altered".into()));
    }
    if record.expires_at <= vault.clock.latest() || !record.is_authorizing_key_live(tenant) {
        return Ok(None);
    }
    let known = |id| directory.principal(id).filter(|it| it.tenant().id == record.tenant);
    let Some(application) = known(record.application) else { return Ok(None) };
    let authorized = match found.record.grant.as_ref() {
        None => None,
        Some(it) => {
            let Some(by) = known(it.authorizer) else { return Ok(None) };
            Some(DelegatedRights {
                authorizer: Arc::clone(by),
                api_key: it.api_key,
                access: it.access.clone(),
            })
        }
    };
    Ok(Some(Principal::for_access_session(id, application, authorized)))
}
