//! Handlers of token intents.

use scrip_core::{
    operations::token_intents::{
        create_token_intent::create_token_intent, delete_token_intent::delete_token_intent,
        get_token_intent::get_token_intent,
    },
    types::id::TokenIntentId,
};

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{response, tokens::token_intent},
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let new = token_intent::parse_new(request.json()?)?;
    let recorder = request.response_recorder(token_intent::render_created);
    let created = create_token_intent(&request.app.vault, &request.caller, new, recorder).await?;
    Ok(response::from_rendered(token_intent::render_created(&created)))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let id = request.path_id(TokenIntentId::parse)?;
    let intent = get_token_intent(&request.app.vault, &request.caller, id).await?;
    Ok(response::from_rendered(token_intent::render_token_intent(&intent)))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    delete_token_intent(
        &request.app.vault,
        &request.caller,
        request.path_id(TokenIntentId::parse)?,
    )
    .await?;
    Ok(response::from_rendered(response::no_content()))
}
