//! List Applications: a page of those that a filter leaves; and one of them, by its id or its key.

use crate::{
    Error, Vault,
    audit::Operation,
    id::ApplicationId,
    listing::{Page, PageAsked},
    policy::{Application, ApplicationKind, Mandate},
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
    mandate: &Mandate,
    filter: &ApplicationFilter,
    asked: PageAsked,
) -> Result<Page<Application>, Error> {
    let wanted = |it: &&Application| {
        let (id, kind) = (it.record.id, it.record.kind);
        (filter.ids.is_empty() || filter.ids.contains(&id))
            && (filter.kinds.is_empty() || filter.kinds.contains(&kind))
    };
    let mut found: Vec<_> = mandate.tenant().applications.values().filter(wanted).collect();
    found.sort_by_key(|it| std::cmp::Reverse((it.record.created.at, it.record.id)));
    vault.record_read(mandate, Operation::ListApplications, "").await?;
    Ok(Page::of(&found, asked))
}

/// # Errors
/// There is no such application, or the read cannot be recorded.
pub async fn get_application(
    vault: &Vault,
    mandate: &Mandate,
    id: ApplicationId,
) -> Result<Application, Error> {
    let found = find_application(mandate, id)?;
    vault.record_read(mandate, Operation::GetApplication, id.to_string()).await?;
    Ok(found.clone())
}

/// Whose key is this?
///
/// # Errors
/// The read cannot be recorded.
pub async fn get_application_by_key(
    vault: &Vault,
    mandate: &Mandate,
) -> Result<Application, Error> {
    let id = mandate.asker()?.application();
    let found = find_application(mandate, id)?;
    vault.record_read(mandate, Operation::GetApplicationByKey, id.to_string()).await?;
    Ok(found.clone())
}

pub(crate) fn find_application(
    mandate: &Mandate,
    id: ApplicationId,
) -> Result<&Application, Error> {
    mandate.tenant().applications.get(&id).ok_or(Error::NotFound)
}
