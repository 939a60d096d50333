//! Handlers of tokens.

use scrip_core::{
    operations::tokens::{
        create_token::create_token, delete_token::delete_token, get_token::get_token,
        list_tokens::list_tokens, list_tokens_v1::list_tokens_v1, search_tokens::search_tokens,
        search_tokens_v1::search_tokens_v1, update_token::update_token,
    },
    types::id::TokenId,
};

use crate::{
    problem::Problem,
    route::{AuthenticatedRequest, Handled, parse_path_id},
    wire::{
        self,
        query::QueryParameters,
        response,
        tokens::{list, search, token, token_response},
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let new = token::parse_new(wire::json::read(&request.body)?)?;
    let recorder = request.response_recorder(token_response::render_created);
    let created = create_token(&request.app.vault, &request.caller, new, recorder).await?;
    Ok(response::with_token(token_response::render_created(&created), created.token))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let token = get_token(&request.app.vault, &request.caller, &token_id(&request)?).await?;
    Ok(response::with_token(token_response::render_token(&token), token))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let id = token_id(&request)?;
    let patch = token::parse_patch(wire::json::read(&request.body)?)?;
    let recorder = request.response_recorder(token_response::render_updated);
    let updated = update_token(&request.app.vault, &request.caller, &id, patch, recorder).await?;
    Ok(response::with_token(token_response::render_updated(&updated), updated.token))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    delete_token(&request.app.vault, &request.caller, &token_id(&request)?).await?;
    Ok(response::from_rendered(response::no_content()))
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let tokens = list::parse_query(&QueryParameters::parse(request.query.as_deref()))?;
    Ok(list::render_page(list_tokens(&request.app.vault, &request.caller, tokens).await?))
}

pub(crate) async fn list_v1(request: AuthenticatedRequest) -> Handled {
    let tokens = list::parse_v1_query(&QueryParameters::parse(request.query.as_deref()))?;
    Ok(list::render_v1_page(list_tokens_v1(&request.app.vault, &request.caller, tokens).await?))
}

pub(crate) async fn search(request: AuthenticatedRequest) -> Handled {
    let tokens = search::parse(wire::json::read(&request.body)?)?;
    Ok(list::render_page(search_tokens(&request.app.vault, &request.caller, tokens).await?))
}

pub(crate) async fn search_v1(request: AuthenticatedRequest) -> Handled {
    let tokens = search::parse_v1(wire::json::read(&request.body)?)?;
    Ok(list::render_v1_page(search_tokens_v1(&request.app.vault, &request.caller, tokens).await?))
}

fn token_id(request: &AuthenticatedRequest) -> Result<TokenId, Problem> {
    parse_path_id(&request.id, |it| TokenId::parse(it).ok())
}
