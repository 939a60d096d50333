//! Handlers of tokens: a sentence each.

use scrip_core::{
    error::Error,
    id::TokenId,
    operations::{
        create_token::create_token, delete_token::delete_token, get_token::get_token,
        update_token::update_token,
    },
};

use crate::{
    http::{Handling, pipeline::Asked, problem::Problem},
    wire::{self, answer, token},
};

pub(crate) fn create(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let new = token::parse_new(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(token::created);
        let written = create_token(&asked.app.vault, &asked.caller, new, remember).await?;
        Ok(answer::token(token::created(&written), written.token))
    })
}

pub(crate) fn get(asked: Asked) -> Handling {
    Box::pin(async move {
        let token = get_token(&asked.app.vault, &asked.caller, &path_id(&asked.id)?).await?;
        Ok(answer::token(token::found(&token), token))
    })
}

pub(crate) fn update(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let id = path_id(&asked.id)?;
        let patch = token::parse_patch(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(token::updated);
        let written = update_token(&asked.app.vault, &asked.caller, &id, patch, remember).await?;
        Ok(answer::token(token::updated(&written), written.token))
    })
}

pub(crate) fn delete(asked: Asked) -> Handling {
    Box::pin(async move {
        delete_token(&asked.app.vault, &asked.caller, &path_id(&asked.id)?).await?;
        Ok(answer::rendered(answer::done()))
    })
}

/// A text that cannot be an id is no token's id.
fn path_id(text: &str) -> Result<TokenId, Problem> {
    TokenId::parse(text).map_err(|_| Problem::Failed(Error::NotFound))
}
