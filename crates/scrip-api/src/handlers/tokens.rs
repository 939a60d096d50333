//! Handlers of tokens: a sentence each.

use scrip_core::{
    id::TokenId,
    operations::tokens::{
        create_token::create_token, delete_token::delete_token, get_token::get_token,
        list_tokens::list_tokens, list_tokens_v1::list_tokens_v1, search_tokens::search_tokens,
        search_tokens_v1::search_tokens_v1, update_token::update_token,
    },
};

use crate::{
    problem::Problem,
    route::{Asked, Handled, path_id},
    wire::{
        self, answer,
        query::Query,
        tokens::{list, search, token, token_response},
    },
};

pub(crate) async fn create(mut asked: Asked) -> Handled {
    let new = token::parse_new(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(token_response::created);
    let written = create_token(&asked.app.vault, &asked.caller, new, remember).await?;
    Ok(answer::token(token_response::created(&written), written.token))
}

pub(crate) async fn get(asked: Asked) -> Handled {
    let token = get_token(&asked.app.vault, &asked.caller, &token_id(&asked)?).await?;
    Ok(answer::token(token_response::found(&token), token))
}

pub(crate) async fn update(mut asked: Asked) -> Handled {
    let id = token_id(&asked)?;
    let patch = token::parse_patch(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(token_response::updated);
    let written = update_token(&asked.app.vault, &asked.caller, &id, patch, remember).await?;
    Ok(answer::token(token_response::updated(&written), written.token))
}

pub(crate) async fn delete(asked: Asked) -> Handled {
    delete_token(&asked.app.vault, &asked.caller, &token_id(&asked)?).await?;
    Ok(answer::rendered(answer::done()))
}

pub(crate) async fn list(asked: Asked) -> Handled {
    let tokens = list::parse(&Query::parse(asked.query.as_deref()))?;
    Ok(list::listed(list_tokens(&asked.app.vault, &asked.caller, tokens).await?))
}

pub(crate) async fn list_v1(asked: Asked) -> Handled {
    let tokens = list::parse_v1(&Query::parse(asked.query.as_deref()))?;
    Ok(list::listed_v1(list_tokens_v1(&asked.app.vault, &asked.caller, tokens).await?))
}

pub(crate) async fn search(asked: Asked) -> Handled {
    let tokens = search::parse(wire::json::read(&asked.body)?)?;
    Ok(list::listed(search_tokens(&asked.app.vault, &asked.caller, tokens).await?))
}

pub(crate) async fn search_v1(asked: Asked) -> Handled {
    let tokens = search::parse_v1(wire::json::read(&asked.body)?)?;
    Ok(list::listed_v1(search_tokens_v1(&asked.app.vault, &asked.caller, tokens).await?))
}

fn token_id(asked: &Asked) -> Result<TokenId, Problem> {
    path_id(&asked.id, |it| TokenId::parse(it).ok())
}
