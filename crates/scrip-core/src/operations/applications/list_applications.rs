//! List Applications: a page of those that a filter leaves; and one of them, by its id or its key.

use crate::{
    Error, Vault,
    audit::Operation,
    id::ApplicationId,
    listing::{Page, PageRequest},
    policy::{Application, ApplicationKind, PolicyPermit},
};

/// Nothing in a list lets everything through.
#[derive(Debug, Default)]
pub struct ApplicationFilter {
    pub ids: Vec<ApplicationId>,
    pub kinds: Vec<ApplicationKind>,
}

/// The newest first.
///
/// # Errors
/// The read cannot be recorded.
pub async fn list_applications(
    vault: &Vault,
    permit: &PolicyPermit,
    filter: &ApplicationFilter,
    page: PageRequest,
) -> Result<Page<Application>, Error> {
    let wanted = |it: &&Application| {
        let (id, kind) = (it.record.id, it.record.kind);
        (filter.ids.is_empty() || filter.ids.contains(&id))
            && (filter.kinds.is_empty() || filter.kinds.contains(&kind))
    };
    let mut found: Vec<_> = permit.tenant().applications.values().filter(wanted).collect();
    found.sort_by_key(|it| std::cmp::Reverse((it.record.created.at, it.record.id)));
    vault.record_policy_read(permit, Operation::ListApplications, "").await?;
    Ok(Page::from_all(&found, page))
}

/// # Errors
/// There is no such application, or the read cannot be recorded.
pub async fn get_application(
    vault: &Vault,
    permit: &PolicyPermit,
    id: ApplicationId,
) -> Result<Application, Error> {
    let found = find_application(permit, id)?;
    vault.record_policy_read(permit, Operation::GetApplication, id.to_string()).await?;
    Ok(found.clone())
}

/// Whose key is this?
///
/// # Errors
/// The read cannot be recorded.
pub async fn get_application_by_key(
    vault: &Vault,
    permit: &PolicyPermit,
) -> Result<Application, Error> {
    let id = permit.require_caller()?.application();
    let found = find_application(permit, id)?;
    vault.record_policy_read(permit, Operation::GetApplicationByKey, id.to_string()).await?;
    Ok(found.clone())
}

pub(crate) fn find_application(
    permit: &PolicyPermit,
    id: ApplicationId,
) -> Result<&Application, Error> {
    permit.tenant().applications.get(&id).ok_or(Error::NotFound)
}
