//! Handlers of API keys: a sentence each.

use scrip_core::{
    id::{ApiKeyId, ApplicationId},
    listing::Page,
    operations::applications::{
        create_api_key::create_api_key,
        delete_api_key::delete_api_key,
        list_api_keys::{get_api_key, list_api_keys},
    },
    policy::ApiKeyRecord,
};

use crate::{
    route::{AuthenticatedRequest, Handled, parse_path_id},
    wire::{policy::application, query::QueryParameters, response},
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let id = parse_path_id(&request.id, ApplicationId::parse)?;
    let recorder = request.response_recorder(application::render_created_key);
    let (vault, pepper) = (&request.app.vault, request.app.pepper()?);
    let created = create_api_key(vault, request.policy_permit()?, &pepper, id, recorder).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(application::render_created_key(&created)))
}

/// A bare array, which is what the official clients read; a page for whoever asks for one.
pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let query = QueryParameters::parse(request.query.as_deref());
    let (permit, id) =
        (request.policy_permit()?, parse_path_id(&request.id, ApplicationId::parse)?);
    let page = query.all("page").chain(query.all("size")).next().map(|_| query.page());
    let page = page.transpose()?;
    let found = list_api_keys(&request.app.vault, &permit, id).await?;
    let expected: Vec<_> = query.all("id").filter_map(ApiKeyId::parse).collect();
    let everything = query.all("id").next().is_none();
    let keys = found.iter().filter(|it| everything || expected.contains(&it.id));
    let keys: Vec<&ApiKeyRecord> = keys.collect();
    Ok(response::from_rendered(match page {
        Some(page) => application::render_key_page(&Page::from_all(&keys, page)),
        None => application::render_keys(&keys),
    }))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let (permit, id) =
        (request.policy_permit()?, parse_path_id(&request.id, ApplicationId::parse)?);
    let parse_key_id = parse_path_id(&request.inner_id, ApiKeyId::parse)?;
    let found = get_api_key(&request.app.vault, &permit, id, parse_key_id).await?;
    Ok(response::from_rendered(application::render_key(found)))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    let (id, key_id) = (
        parse_path_id(&request.id, ApplicationId::parse)?,
        parse_path_id(&request.inner_id, ApiKeyId::parse)?,
    );
    delete_api_key(&request.app.vault, request.policy_permit()?, id, key_id).await?;
    request.app.reload().await?;
    Ok(response::from_rendered(response::no_content()))
}
