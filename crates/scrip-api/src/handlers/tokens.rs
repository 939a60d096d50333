//! Handlers of tokens.

use std::sync::Arc;

use scrip_core::{
    operations::tokens::{
        create_token::create_token,
        delete_token::delete_token,
        detokenize::detokenize,
        get_token::get_token,
        list_tokens::list_tokens,
        list_tokens_v1::list_tokens_v1,
        search_tokens::search_tokens,
        search_tokens_v1::search_tokens_v1,
        tokenize::{check_tokenize_quota, tokenize},
        update_token::update_token,
    },
    types::id::TokenId,
};

use crate::{
    problem::Problem,
    route::{AuthenticatedRequest, Handled},
    wire::{
        self, response,
        tokens::{list, search, token, token_response},
    },
};

pub(crate) async fn create(mut request: AuthenticatedRequest) -> Handled {
    let new = token::parse_new(request.json()?)?;
    let recorder = request.response_recorder(token_response::render_created);
    let created = create_token(&request.app.vault, &request.caller, new, recorder).await?;
    Ok(token_response::with_token(token_response::render_created(&created), created.token))
}

pub(crate) async fn get(request: AuthenticatedRequest) -> Handled {
    let token = get_token(&request.app.vault, &request.caller, &token_id(&request)?).await?;
    Ok(token_response::with_token(token_response::render_token(&token), token))
}

pub(crate) async fn update(mut request: AuthenticatedRequest) -> Handled {
    let id = token_id(&request)?;
    let patch = token::parse_patch(request.json()?)?;
    let recorder = request.response_recorder(token_response::render_updated);
    let updated = update_token(&request.app.vault, &request.caller, &id, patch, recorder).await?;
    Ok(token_response::with_token(token_response::render_updated(&updated), updated.token))
}

pub(crate) async fn delete(request: AuthenticatedRequest) -> Handled {
    delete_token(&request.app.vault, &request.caller, &token_id(&request)?).await?;
    Ok(response::from_rendered(response::no_content()))
}

pub(crate) async fn list(request: AuthenticatedRequest) -> Handled {
    let tokens = list::parse_query(&request.query())?;
    Ok(list::render_page(list_tokens(&request.app.vault, &request.caller, tokens).await?))
}

pub(crate) async fn list_v1(request: AuthenticatedRequest) -> Handled {
    let tokens = list::parse_v1_query(&request.query())?;
    Ok(list::render_v1_page(list_tokens_v1(&request.app.vault, &request.caller, tokens).await?))
}

pub(crate) async fn search(request: AuthenticatedRequest) -> Handled {
    let tokens = search::parse(request.json()?)?;
    Ok(list::render_page(search_tokens(&request.app.vault, &request.caller, tokens).await?))
}

pub(crate) async fn search_v1(request: AuthenticatedRequest) -> Handled {
    let tokens = search::parse_v1(request.json()?)?;
    Ok(list::render_v1_page(search_tokens_v1(&request.app.vault, &request.caller, tokens).await?))
}

fn token_id(request: &AuthenticatedRequest) -> Result<TokenId, Problem> {
    request.path_id(|it| TokenId::parse(it).ok())
}

pub(crate) async fn tokenize_body(mut request: AuthenticatedRequest) -> Handled {
    let body = request.json()?;
    check_tokenize_quota(&request.caller, wire::tokens::tokenize::count_tokens(body.expose()))?;
    let (template, requested) = wire::tokens::tokenize::parse(body)?;
    let template = Arc::new(template);
    let recorded_template = Arc::clone(&template);
    let recorder = request.response_recorder(move |tokens: &[_]| recorded_template.render(tokens));
    let tokens = tokenize(&request.app.vault, &request.caller, requested, recorder).await?;
    let rendered = template.render(&tokens);
    Ok(token_response::with_tokens(rendered, tokens.into_iter().map(|it| it.token).collect()))
}

pub(crate) async fn detokenize_body(request: AuthenticatedRequest) -> Handled {
    let body = request.json()?;
    let renderers = wire::tokens::tokenize::WHOLE_TOKEN_RENDERERS;
    let value = detokenize(&request.app.vault, &request.caller, &body, renderers).await?;
    Ok(response::json(200, value.expose().to_string()))
}
