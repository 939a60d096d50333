//! Handlers of applications: a sentence each.

use scrip_core::{
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
    route::{Asked, Handled, path_id},
    wire::{
        self, answer,
        policy::application::{self, KIND_RULE},
        query::{Query, invalid},
    },
};

pub(crate) async fn create(mut asked: Asked) -> Handled {
    let new = application::parse_new(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(application::created);
    let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
    let created = create_application(vault, asked.mandate()?, &pepper, new, remember).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(application::created(&created)))
}

pub(crate) async fn list(asked: Asked) -> Handled {
    let query = Query::parse(asked.query.as_deref());
    let (mandate, filter, page) = (asked.mandate()?, filter(&query)?, query.page()?);
    let page = list_applications(&asked.app.vault, &mandate, &filter, page).await?;
    Ok(answer::rendered(application::listed(&page)))
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

pub(crate) async fn get(asked: Asked) -> Handled {
    let (mandate, id) = (asked.mandate()?, path_id(&asked.id, ApplicationId::parse)?);
    let found = get_application(&asked.app.vault, &mandate, id).await?;
    Ok(answer::rendered(application::found(&found)))
}

/// Whose key is this?
pub(crate) async fn get_by_key(asked: Asked) -> Handled {
    let found = get_application_by_key(&asked.app.vault, &asked.mandate()?).await?;
    Ok(answer::rendered(application::found(&found)))
}

pub(crate) async fn update(mut asked: Asked) -> Handled {
    let id = path_id(&asked.id, ApplicationId::parse)?;
    let (name, access) = application::parse_update(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(application::found);
    let (vault, mandate) = (&asked.app.vault, asked.mandate()?);
    let updated = update_application(vault, mandate, id, name, access, remember).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(application::found(&updated)))
}

pub(crate) async fn delete(asked: Asked) -> Handled {
    let id = path_id(&asked.id, ApplicationId::parse)?;
    delete_application(&asked.app.vault, asked.mandate()?, id).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(answer::done()))
}
