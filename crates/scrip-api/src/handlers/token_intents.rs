//! Handlers of token intents: a sentence each.

use scrip_core::{
    error::Error,
    id::TokenIntentId,
    operations::token_intents::{
        create_token_intent::create_token_intent, delete_token_intent::delete_token_intent,
        get_token_intent::get_token_intent,
    },
};

use crate::{
    problem::Problem,
    route::{Asked, Handling},
    wire::{self, answer, tokens::token_intent},
};

pub(crate) fn create(mut asked: Asked) -> Handling {
    Box::pin(async move {
        let new = token_intent::parse_new(wire::json::read(&asked.body)?)?;
        let remember = asked.remember(token_intent::created);
        let created = create_token_intent(&asked.app.vault, &asked.caller, new, remember).await?;
        Ok(answer::rendered(token_intent::created(&created)))
    })
}

pub(crate) fn get(asked: Asked) -> Handling {
    Box::pin(async move {
        let id = path_id(&asked.id)?;
        let found = get_token_intent(&asked.app.vault, &asked.caller, id).await?;
        Ok(answer::rendered(token_intent::found(&found)))
    })
}

pub(crate) fn delete(asked: Asked) -> Handling {
    Box::pin(async move {
        delete_token_intent(&asked.app.vault, &asked.caller, path_id(&asked.id)?).await?;
        Ok(answer::rendered(answer::done()))
    })
}

/// A text that cannot be an id is no intent's.
fn path_id(text: &str) -> Result<TokenIntentId, Problem> {
    TokenIntentId::parse(text).ok_or(Problem::Failed(Error::NotFound))
}
