//! Finds the rights of an access session key. Every request reads the store, so a change of a
//! session takes effect on all nodes immediately.

use std::sync::Arc;

use crate::{
    Error, Vault,
    policy::{AccessSessionId, Directory, Principal, principal::DelegatedRights},
};

/// Finds the principal of an access session key. `None` when there is no such session, when it
/// expired, when its application was deleted, or when the API key that authorized it was deleted.
///
/// Errors: the store is unavailable, or the row of the session was altered.
pub async fn resume_access_session(
    vault: &Vault,
    directory: &Directory,
    key: &str,
) -> Result<Option<Principal>, Error> {
    let id = AccessSessionId(directory.digest(key));
    let Some(row) = vault.store.find_access_session(id).await? else { return Ok(None) };
    let record = &row.record;
    let Some(tenant) = directory.tenant(record.tenant) else { return Ok(None) };
    if record.id != id || !row.has_valid_mac(&tenant.keys) {
        return Err(Error::Internal("the row of an access session was altered".into()));
    }
    if record.expires_at <= vault.clock.latest() || !record.is_authorizing_key_live(tenant) {
        return Ok(None);
    }
    let find_principal = |id| directory.principal(id).filter(|it| it.tenant().id == record.tenant);
    let Some(application) = find_principal(record.application) else { return Ok(None) };
    let delegated = match row.record.grant.as_ref() {
        None => None,
        Some(it) => {
            let Some(authorizer) = find_principal(it.authorizer) else { return Ok(None) };
            Some(DelegatedRights {
                authorizer: Arc::clone(authorizer),
                api_key: it.api_key,
                at: it.at,
                access: it.access.clone(),
            })
        }
    };
    Ok(Some(Principal::for_access_session(id, application, delegated)))
}
