//! Handlers of token intents: a sentence each.

use scrip_core::{
    id::TokenIntentId,
    operations::token_intents::{
        create_token_intent::create_token_intent, delete_token_intent::delete_token_intent,
        get_token_intent::get_token_intent,
    },
};

use crate::{
    route::{Asked, Handled, path_id},
    wire::{self, answer, tokens::token_intent},
};

pub(crate) async fn create(mut asked: Asked) -> Handled {
    let new = token_intent::parse_new(wire::json::read(&asked.body)?)?;
    let remember = asked.remember(token_intent::created);
    let created = create_token_intent(&asked.app.vault, &asked.caller, new, remember).await?;
    Ok(answer::rendered(token_intent::created(&created)))
}

pub(crate) async fn get(asked: Asked) -> Handled {
    let id = path_id(&asked.id, TokenIntentId::parse)?;
    let found = get_token_intent(&asked.app.vault, &asked.caller, id).await?;
    Ok(answer::rendered(token_intent::found(&found)))
}

pub(crate) async fn delete(asked: Asked) -> Handled {
    delete_token_intent(&asked.app.vault, &asked.caller, path_id(&asked.id, TokenIntentId::parse)?)
        .await?;
    Ok(answer::rendered(answer::done()))
}
