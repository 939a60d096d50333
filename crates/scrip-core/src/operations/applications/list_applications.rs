//! List Applications: a page of the applications that match a filter; and one application, by its
//! id or its key.

use crate::{
    Error, Vault,
    listing::{Page, PageRequest},
    policy::{Application, PolicyPermit},
    types::{ApplicationKind, Operation, id::ApplicationId},
};

/// A filter of applications. An empty list matches all.
#[derive(Debug, Default)]
pub struct ApplicationFilter {
    pub ids: Vec<ApplicationId>,
    pub kinds: Vec<ApplicationKind>,
}

/// Lists applications, newest first.
/// Errors: the read cannot be recorded.
pub async fn list_applications(
    vault: &Vault,
    permit: &PolicyPermit,
    filter: &ApplicationFilter,
    page: PageRequest,
) -> Result<Page<Application>, Error> {
    let is_included = |it: &&Application| {
        let (id, kind) = (it.record.id, it.record.kind);
        (filter.ids.is_empty() || filter.ids.contains(&id))
            && (filter.kinds.is_empty() || filter.kinds.contains(&kind))
    };
    let mut applications: Vec<_> =
        permit.tenant().applications.values().filter(is_included).collect();
    applications.sort_by_key(|it| std::cmp::Reverse((it.record.created.at, it.record.id)));
    vault.record_policy_read(permit, Operation::ListApplications, "").await?;
    Ok(Page::from_all(&applications, page))
}

/// Errors: there is no such application, or the read cannot be recorded.
pub async fn get_application(
    vault: &Vault,
    permit: &PolicyPermit,
    id: ApplicationId,
) -> Result<Application, Error> {
    let application = find_application(permit, id)?;
    vault.record_policy_read(permit, Operation::GetApplication, id.to_string()).await?;
    Ok(application.clone())
}

/// The application of the caller's API key.
/// Errors: the read cannot be recorded.
pub async fn get_application_by_key(
    vault: &Vault,
    permit: &PolicyPermit,
) -> Result<Application, Error> {
    let id = permit.require_caller()?.application();
    let application = find_application(permit, id)?;
    vault.record_policy_read(permit, Operation::GetApplicationByKey, id.to_string()).await?;
    Ok(application.clone())
}

pub(crate) fn find_application(
    permit: &PolicyPermit,
    id: ApplicationId,
) -> Result<&Application, Error> {
    permit.tenant().applications.get(&id).ok_or(Error::NotFound)
}
