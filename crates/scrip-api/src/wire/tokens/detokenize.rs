//! What a detokenization expression sees of a whole token.

use scrip_core::{
    idempotency::Rendered,
    operations::tokens::detokenize::Wholes,
    token::{Plain, TokenIntentView, TokenView},
};
use serde_json::{Map, Value};

use crate::wire::tokens::{token_intent, token_response};

pub(crate) const WHOLES: Wholes = Wholes { token: whole, intent: whole_intent };

/// As Get Token shows it, under the same names.
fn whole(view: TokenView) -> Plain {
    let rendered = token_response::found(&view);
    with_data(&rendered, view.detail.and_then(|it| it.shown.into_data()))
}

/// As Get Token Intent shows it, with the data that it never does.
fn whole_intent(view: &TokenIntentView, data: Option<Plain>) -> Plain {
    with_data(&token_intent::found(view), data)
}

fn with_data(rendered: &Rendered, data: Option<Plain>) -> Plain {
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = data {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plain::new(Value::Object(object))
}
