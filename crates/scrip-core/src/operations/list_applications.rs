//! List Applications: a page of those that a filter leaves.

use crate::{
    application::Application,
    caller::Mandate,
    error::Error,
    id::ApplicationId,
    page::{Page, PageAsked},
    permission::ApplicationKind,
};

/// Nothing in a list lets everything through.
#[derive(Debug, Default)]
pub struct ApplicationFilter {
    pub ids: Vec<ApplicationId>,
    pub kinds: Vec<ApplicationKind>,
}

/// The newest first.
#[must_use]
pub fn list_applications(
    mandate: &Mandate,
    filter: &ApplicationFilter,
    asked: PageAsked,
) -> Page<Application> {
    let wanted = |it: &&Application| {
        let (id, kind) = (it.record.id, it.record.kind);
        (filter.ids.is_empty() || filter.ids.contains(&id))
            && (filter.kinds.is_empty() || filter.kinds.contains(&kind))
    };
    let mut found: Vec<_> = mandate.tenant().applications.values().filter(wanted).collect();
    found.sort_by_key(|it| std::cmp::Reverse((it.record.created.at, it.record.id)));
    Page::of(&found, asked)
}

/// # Errors
/// There is no such application.
pub fn get_application(mandate: &Mandate, id: ApplicationId) -> Result<Application, Error> {
    mandate.tenant().applications.get(&id).cloned().ok_or(Error::NotFound)
}
