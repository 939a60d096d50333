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
    let (form, requested) = wire::tokens::tokenize::parse(body)?;
    let form = Arc::new(form);
    let remembered = Arc::clone(&form);
    let recorder = request.response_recorder(move |written: &[_]| remembered.render(written));
    let written = tokenize(&request.app.vault, &request.caller, requested, recorder).await?;
    let rendered = form.render(&written);
    Ok(response::with_tokens(rendered, written.into_iter().map(|it| it.token).collect()))
}

pub(crate) async fn detokenize_body(request: AuthenticatedRequest) -> Handled {
    let body = wire::json::read(&request.body)?;
    let wholes = wire::tokens::detokenize::WHOLE_TOKEN_RENDERERS;
    let value = detokenize(&request.app.vault, &request.caller, &body, wholes).await?;
    Ok(response::json(200, value.expose().to_string()))
}
