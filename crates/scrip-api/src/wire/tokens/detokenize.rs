//! Renders whole tokens and token intents for detokenization expressions.

use scrip_core::{
    idempotency::RenderedResponse,
    operations::reference_data::DetokenizeRenderers,
    token::{TokenIntentView, TokenView},
    types::Plaintext,
};
use serde_json::{Map, Value};

use crate::wire::tokens::{token_intent, token_response};

pub(crate) const WHOLE_TOKEN_RENDERERS: DetokenizeRenderers =
    DetokenizeRenderers { token: render_whole_token, intent: render_whole_intent };

/// The token as Get Token returns it.
fn render_whole_token(view: TokenView) -> Plaintext {
    let rendered = token_response::render_token(&view);
    add_data(&rendered, view.detail.and_then(|it| it.visible.into_data()))
}

/// The intent as Get Token Intent returns it, plus the data, which that response never contains.
fn render_whole_intent(view: &TokenIntentView, data: Option<Plaintext>) -> Plaintext {
    add_data(&token_intent::render_token_intent(view), data)
}

fn add_data(rendered: &RenderedResponse, data: Option<Plaintext>) -> Plaintext {
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = data {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plaintext::new(Value::Object(object))
}
