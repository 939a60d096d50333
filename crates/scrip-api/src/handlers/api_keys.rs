//! Handlers of API keys.

use scrip_core::{
    listing::Page,
    operations::applications::{
        create_api_key::create_api_key,
        delete_api_key::delete_api_key,
        list_api_keys::{get_api_key, list_api_keys},
    },
    policy::ApiKeyRecord,
    types::id::{ApiKeyId, ApplicationId},
};

use crate::{
    route::{AuthenticatedRequest, Handled, parse_path_id},
    wire::{
        policy::application::{self, parse_kinds},
        response,
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let application_id = request.path_id(ApplicationId::parse)?;
    let recorder = request.response_recorder(application::render_created_key);
    let (vault, pepper) = (&request.app.vault, request.app.pepper()?);
    let created =
        create_api_key(vault, request.policy_permit()?, &pepper, application_id, recorder).await?;
    request.respond_to_change(application::render_created_key(&created)).await
}

/// Returns a page if the query has `page` or `size`. Otherwise returns a plain array, as the
/// official clients expect.
pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = request.query();
    let (permit, application_id) =
        (request.policy_permit()?, request.path_id(ApplicationId::parse)?);
    let page = query.all("page").chain(query.all("size")).next().map(|_| query.page());
    let page = page.transpose()?;
    let kinds = parse_kinds(&query)?;
    let api_keys = list_api_keys(&request.app.vault, &permit, application_id, &kinds).await?;
    let requested_ids: Vec<_> = query.all("id").filter_map(ApiKeyId::parse).collect();
    let is_unfiltered = query.all("id").next().is_none();
    let keys = api_keys.iter().filter(|it| is_unfiltered || requested_ids.contains(&it.id));
    let keys: Vec<&ApiKeyRecord> = keys.collect();
    Ok(response::from_rendered(match page {
        Some(page) => application::render_key_page(&Page::from_all(&keys, page)),
        None => application::render_keys(&keys),
    }))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, application_id) =
        (request.policy_permit()?, request.path_id(ApplicationId::parse)?);
    let key_id = parse_path_id(&request.inner_id, ApiKeyId::parse)?;
    let api_key = get_api_key(&request.app.vault, &permit, application_id, key_id).await?;
    Ok(response::from_rendered(application::render_key(api_key)))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let (application_id, key_id) = (
        request.path_id(ApplicationId::parse)?,
        parse_path_id(&request.inner_id, ApiKeyId::parse)?,
    );
    delete_api_key(&request.app.vault, request.policy_permit()?, application_id, key_id).await?;
    request.respond_to_change(response::no_content()).await
}
