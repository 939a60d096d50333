//! Handlers of applications: a sentence each.

use scrip_core::{
    error::Error,
    id::ApplicationId,
    operations::applications::{
        create_application::create_application,
        delete_application::delete_application,
        list_applications::{
            ApplicationFilter, get_application, get_application_by_key, list_applications,
        },
        update_application::update_application,
    },
    policy::ApplicationKind,
};

use crate::{
    problem::Problem,
    route::{Asked, Handling},
    wire::{
        self, answer,
        policy::application::{self, KIND_RULE},
        query::{Query, invalid},
    },
};

pub(crate) fn create(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let new = application::parse_new(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(application::created);
        let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
        let created = create_application(vault, asked.mandate()?, &pepper, new, remember).await?;
        asked.app.reload().await?;
        Ok(answer::rendered(application::created(&created)))
    })
}

pub(crate) fn list(asked: Asked) -> Handling {
    Box::pin(async move {
        let query = Query::parse(asked.query.as_deref());
        let (mandate, filter, page) = (asked.mandate()?, filter(&query)?, query.page()?);
        let page = list_applications(&asked.app.vault, &mandate, &filter, page).await?;
        Ok(answer::rendered(application::listed(&page)))
    })
}

/// Ids that are none are nobody's, so they are passed over; a type that is none is a mistake.
fn filter(query: &Query<'_>) -> Result<ApplicationFilter, Problem> {
    let named: Vec<_> = query.all("id").collect();
    let mut ids: Vec<_> = named.iter().filter_map(|it| ApplicationId::parse(it)).collect();
    if ids.is_empty() && !named.is_empty() {
        ids.push(ApplicationId(uuid::Uuid::nil()));
    }
    let kind = |it| ApplicationKind::parse(it).ok_or_else(|| invalid("type", KIND_RULE));
    let kinds = query.all("type").map(kind).collect::<Result<_, _>>()?;
    Ok(ApplicationFilter { ids, kinds })
}

pub(crate) fn get(asked: Asked) -> Handling {
    Box::pin(async move {
        let (mandate, id) = (asked.mandate()?, path_id(&asked.id)?);
        let found = get_application(&asked.app.vault, &mandate, id).await?;
        Ok(answer::rendered(application::found(&found)))
    })
}

/// Whose key is this?
pub(crate) fn get_by_key(asked: Asked) -> Handling {
    Box::pin(async move {
        let found = get_application_by_key(&asked.app.vault, &asked.mandate()?).await?;
        Ok(answer::rendered(application::found(&found)))
    })
}

pub(crate) fn update(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let id = path_id(&asked.id)?;
        let (name, access) = application::parse_update(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(application::found);
        let (vault, mandate) = (&asked.app.vault, asked.mandate()?);
        let updated = update_application(vault, mandate, id, name, access, remember).await?;
        asked.app.reload().await?;
        Ok(answer::rendered(application::found(&updated)))
    })
}

pub(crate) fn delete(asked: Asked) -> Handling {
    Box::pin(async move {
        let id = path_id(&asked.id)?;
        delete_application(&asked.app.vault, asked.mandate()?, id).await?;
        asked.app.reload().await?;
        Ok(answer::rendered(answer::done()))
    })
}

/// A text that cannot be an id is no application's.
pub(crate) fn path_id(text: &str) -> Result<ApplicationId, Problem> {
    ApplicationId::parse(text).ok_or(Problem::Failed(Error::NotFound))
}
