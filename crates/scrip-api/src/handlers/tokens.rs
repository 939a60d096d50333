//! Handlers of tokens: a sentence each.

use scrip_core::{
    error::Error,
    id::TokenId,
    operations::tokens::{
        create_token::create_token, delete_token::delete_token, get_token::get_token,
        list_tokens::list_tokens, list_tokens_v1::list_tokens_v1, search_tokens::search_tokens,
        search_tokens_v1::search_tokens_v1, update_token::update_token,
    },
};

use crate::{
    problem::Problem,
    route::{Asked, Handling},
    wire::{
        self, answer,
        query::Query,
        tokens::{list, search, token, token_response},
    },
};

pub(crate) fn create(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let new = token::parse_new(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(token_response::created);
        let written = create_token(&asked.app.vault, &asked.caller, new, remember).await?;
        Ok(answer::token(token_response::created(&written), written.token))
    })
}

pub(crate) fn get(asked: Asked) -> Handling {
    Box::pin(async move {
        let token = get_token(&asked.app.vault, &asked.caller, &path_id(&asked.id)?).await?;
        Ok(answer::token(token_response::found(&token), token))
    })
}

pub(crate) fn update(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let id = path_id(&asked.id)?;
        let patch = token::parse_patch(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(token_response::updated);
        let written = update_token(&asked.app.vault, &asked.caller, &id, patch, remember).await?;
        Ok(answer::token(token_response::updated(&written), written.token))
    })
}

pub(crate) fn delete(asked: Asked) -> Handling {
    Box::pin(async move {
        delete_token(&asked.app.vault, &asked.caller, &path_id(&asked.id)?).await?;
        Ok(answer::rendered(answer::done()))
    })
}

pub(crate) fn list(asked: Asked) -> Handling {
    Box::pin(async move {
        let tokens = list::parse(&Query::parse(asked.query.as_deref()))?;
        Ok(list::listed(list_tokens(&asked.app.vault, &asked.caller, tokens).await?))
    })
}

pub(crate) fn list_v1(asked: Asked) -> Handling {
    Box::pin(async move {
        let tokens = list::parse_v1(&Query::parse(asked.query.as_deref()))?;
        Ok(list::listed_v1(list_tokens_v1(&asked.app.vault, &asked.caller, tokens).await?))
    })
}

pub(crate) fn search(asked: Asked) -> Handling {
    Box::pin(async move {
        let tokens = search::parse(wire::json::read(&asked.body)?)?;
        Ok(list::listed(search_tokens(&asked.app.vault, &asked.caller, tokens).await?))
    })
}

pub(crate) fn search_v1(asked: Asked) -> Handling {
    Box::pin(async move {
        let tokens = search::parse_v1(wire::json::read(&asked.body)?)?;
        Ok(list::listed_v1(search_tokens_v1(&asked.app.vault, &asked.caller, tokens).await?))
    })
}

/// A text that cannot be an id is no token's id.
fn path_id(text: &str) -> Result<TokenId, Problem> {
    TokenId::parse(text).map_err(|_| Problem::Failed(Error::NotFound))
}
