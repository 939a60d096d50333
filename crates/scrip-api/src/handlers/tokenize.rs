//! Handlers of tokenize and detokenize.

use std::sync::Arc;

use scrip_core::operations::tokens::{
    detokenize::detokenize,
    tokenize::{check_tokens, tokenize},
};

use crate::{
    route::{Asked, Handled},
    wire::{self, answer},
};

pub(crate) async fn tokenize_body(mut asked: Asked) -> Handled {
    let body = wire::json::read(&asked.body)?;
    check_tokens(&asked.caller, wire::tokens::tokenize::count(body.expose()))?;
    let (form, requested) = wire::tokens::tokenize::parse(body)?;
    let form = Arc::new(form);
    let remembered = Arc::clone(&form);
    let remember = asked.remember(move |written: &[_]| remembered.render(written));
    let written = tokenize(&asked.app.vault, &asked.caller, requested, remember).await?;
    let rendered = form.render(&written);
    Ok(answer::tokens(rendered, written.into_iter().map(|it| it.token).collect()))
}

pub(crate) async fn detokenize_body(asked: Asked) -> Handled {
    let body = wire::json::read(&asked.body)?;
    let wholes = wire::tokens::detokenize::WHOLES;
    let value = detokenize(&asked.app.vault, &asked.caller, &body, wholes).await?;
    Ok(answer::json(200, value.expose().to_string()))
}
