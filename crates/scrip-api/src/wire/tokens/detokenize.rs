//! What a detokenization expression sees of a whole token.

use scrip_core::{
    idempotency::RenderedResponse,
    operations::tokens::detokenize::DetokenizeRenderers,
    token::{Plaintext, TokenIntentView, TokenView},
};
use serde_json::{Map, Value};

use crate::wire::tokens::{token_intent, token_response};

pub(crate) const WHOLE_TOKEN_RENDERERS: DetokenizeRenderers =
    DetokenizeRenderers { token: render_whole_token, intent: render_whole_intent };

/// As Get Token shows it, under the same names.
fn render_whole_token(view: TokenView) -> Plaintext {
    let rendered = token_response::render_token(&view);
    with_data(&rendered, view.detail.and_then(|it| it.visible.into_data()))
}

/// As Get Token Intent shows it, with the data that it never does.
fn render_whole_intent(view: &TokenIntentView, data: Option<Plaintext>) -> Plaintext {
    with_data(&token_intent::render_token_intent(view), data)
}

fn with_data(rendered: &RenderedResponse, data: Option<Plaintext>) -> Plaintext {
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = data {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plaintext::new(Value::Object(object))
}
