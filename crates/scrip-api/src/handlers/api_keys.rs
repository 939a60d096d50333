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
    route::{Asked, Handled, path_id},
    wire::{answer, policy::application, query::Query},
};

pub(crate) async fn create(mut asked: Asked) -> Handled {
    let id = path_id(&asked.id, ApplicationId::parse)?;
    let remember = asked.remember(application::created_key);
    let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
    let created = create_api_key(vault, asked.mandate()?, &pepper, id, remember).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(application::created_key(&created)))
}

/// A bare array, which is what the official clients read; a page for whoever asks for one.
pub(crate) async fn list(asked: Asked) -> Handled {
    let query = Query::parse(asked.query.as_deref());
    let (mandate, id) = (asked.mandate()?, path_id(&asked.id, ApplicationId::parse)?);
    let page = query.all("page").chain(query.all("size")).next().map(|_| query.page());
    let page = page.transpose()?;
    let found = list_api_keys(&asked.app.vault, &mandate, id).await?;
    let wanted: Vec<_> = query.all("id").filter_map(ApiKeyId::parse).collect();
    let everything = query.all("id").next().is_none();
    let keys = found.iter().filter(|it| everything || wanted.contains(&it.id));
    let keys: Vec<&ApiKeyRecord> = keys.collect();
    Ok(answer::rendered(match page {
        Some(page) => application::paged_keys(&Page::of(&keys, page)),
        None => application::listed_keys(&keys),
    }))
}

pub(crate) async fn get(asked: Asked) -> Handled {
    let (mandate, id) = (asked.mandate()?, path_id(&asked.id, ApplicationId::parse)?);
    let key_id = path_id(&asked.inner_id, ApiKeyId::parse)?;
    let found = get_api_key(&asked.app.vault, &mandate, id, key_id).await?;
    Ok(answer::rendered(application::found_key(found)))
}

pub(crate) async fn delete(asked: Asked) -> Handled {
    let (id, key_id) =
        (path_id(&asked.id, ApplicationId::parse)?, path_id(&asked.inner_id, ApiKeyId::parse)?);
    delete_api_key(&asked.app.vault, asked.mandate()?, id, key_id).await?;
    asked.app.reload().await?;
    Ok(answer::rendered(answer::done()))
}
