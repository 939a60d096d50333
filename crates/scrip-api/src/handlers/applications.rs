//! Handlers of applications.

use scrip_core::{
    operations::applications::{
        create_application::create_application,
        delete_application::delete_application,
        list_applications::{
            ApplicationFilter, get_application, get_application_by_key, list_applications,
        },
        update_application::update_application,
    },
    types::id::ApplicationId,
};

use crate::{
    problem::Problem,
    route::{AuthenticatedRequest, Handled},
    wire::{
        policy::application::{self, parse_kinds},
        query::QueryParameters,
        response,
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let new = application::parse_new(request.json()?)?;
    let recorder = request.response_recorder(application::render_created);
    let (vault, pepper) = (&request.app.vault, request.app.pepper()?);
    let created =
        create_application(vault, request.policy_permit()?, &pepper, new, recorder).await?;
    request.respond_to_change(application::render_created(&created)).await
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = request.query();
    let (permit, filter, page) = (request.policy_permit()?, parse_filter(&query)?, query.page()?);
    let page = list_applications(&request.app.vault, &permit, &filter, page).await?;
    Ok(response::from_rendered(application::render_list(&page)))
}

/// An invalid id matches no application; an invalid type is an error.
fn parse_filter(query: &QueryParameters<'_>) -> Result<ApplicationFilter, Problem> {
    let id_texts: Vec<_> = query.all("id").collect();
    let mut ids: Vec<_> = id_texts.iter().filter_map(|it| ApplicationId::parse(it)).collect();
    if ids.is_empty() && !id_texts.is_empty() {
        ids.push(ApplicationId(uuid::Uuid::nil()));
    }
    Ok(ApplicationFilter { ids, kinds: parse_kinds(query)? })
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) = (request.policy_permit()?, request.path_id(ApplicationId::parse)?);
    let application = get_application(&request.app.vault, &permit, id).await?;
    Ok(response::from_rendered(application::render_application(&application)))
}

/// Returns the application of the key in the request.
pub(crate) async fn get_by_key(request: AuthenticatedRequest) -> Handled {
    let application = get_application_by_key(&request.app.vault, &request.policy_permit()?).await?;
    Ok(response::from_rendered(application::render_application(&application)))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ApplicationId::parse)?;
    let update = application::parse_update(request.json()?)?;
    let recorder = request.response_recorder(application::render_application);
    let (vault, permit) = (&request.app.vault, request.policy_permit()?);
    let updated = update_application(vault, permit, id, update, recorder).await?;
    request.respond_to_change(application::render_application(&updated)).await
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(ApplicationId::parse)?;
    delete_application(&request.app.vault, request.policy_permit()?, id).await?;
    request.respond_to_change(response::no_content()).await
}
