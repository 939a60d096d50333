//! Handlers of API keys: a sentence each.

use scrip_core::{
    error::Error,
    id::ApiKeyId,
    listing::Page,
    operations::applications::{
        create_api_key::create_api_key,
        delete_api_key::delete_api_key,
        list_api_keys::{get_api_key, list_api_keys},
    },
    policy::ApiKeyRecord,
};

use crate::{
    handlers::applications::path_id,
    problem::Problem,
    route::{Asked, Handling},
    wire::{answer, policy::application, query::Query},
};

pub(crate) fn create(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let id = path_id(&asked.id)?;
        let remember = asked.remember(application::created_key);
        let (vault, pepper) = (&asked.app.vault, asked.app.pepper()?);
        let created = create_api_key(vault, asked.mandate()?, &pepper, id, remember).await?;
        asked.app.reload().await?;
        Ok(answer::rendered(application::created_key(&created)))
    })
}

/// A bare array, which is what the official clients read; a page for whoever asks for one.
pub(crate) fn list(asked: Asked) -> Handling {
    Box::pin(async move {
        let query = Query::parse(asked.query.as_deref());
        let (mandate, id) = (asked.mandate()?, path_id(&asked.id)?);
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
    })
}

pub(crate) fn get(asked: Asked) -> Handling {
    Box::pin(async move {
        let (mandate, id) = (asked.mandate()?, path_id(&asked.id)?);
        let key_id = key_id(&asked.inner_id)?;
        let found = get_api_key(&asked.app.vault, &mandate, id, key_id).await?;
        Ok(answer::rendered(application::found_key(found)))
    })
}

pub(crate) fn delete(asked: Asked) -> Handling {
    Box::pin(async move {
        let (id, key_id) = (path_id(&asked.id)?, key_id(&asked.inner_id)?);
        delete_api_key(&asked.app.vault, asked.mandate()?, id, key_id).await?;
        asked.app.reload().await?;
        Ok(answer::rendered(answer::done()))
    })
}

fn key_id(text: &str) -> Result<ApiKeyId, Problem> {
    ApiKeyId::parse(text).ok_or(Problem::Failed(Error::NotFound))
}
