//! Handlers of tokenize and detokenize.

use std::sync::Arc;

use scrip_core::operations::tokens::{
    detokenize::detokenize,
    tokenize::{check_tokenize_quota, tokenize},
};

use crate::{
    route::{AuthenticatedRequest, Handled},
    wire::{self, response},
};

pub(crate) async fn tokenize_body(mut request: AuthenticatedRequest) -> Handled {
    let body = wire::json::read(&request.body)?;
    check_tokenize_quota(&request.caller, wire::tokens::tokenize::count_tokens(body.expose()))?;
    let (template, requested) = wire::tokens::tokenize::parse(body)?;
    let template = Arc::new(template);
    let recorded_template = Arc::clone(&template);
    let recorder = request.response_recorder(move |tokens: &[_]| recorded_template.render(tokens));
    let tokens = tokenize(&request.app.vault, &request.caller, requested, recorder).await?;
    let rendered = template.render(&tokens);
    Ok(response::with_tokens(rendered, tokens.into_iter().map(|it| it.token).collect()))
}

pub(crate) async fn detokenize_body(request: AuthenticatedRequest) -> Handled {
    let body = wire::json::read(&request.body)?;
    let renderers = wire::tokens::detokenize::WHOLE_TOKEN_RENDERERS;
    let value = detokenize(&request.app.vault, &request.caller, &body, renderers).await?;
    Ok(response::json(200, value.expose().to_string()))
}
