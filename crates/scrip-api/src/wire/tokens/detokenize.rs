//! What a detokenization expression sees of a whole token.

use scrip_core::{
    operations::tokens::detokenize::Wholes,
    token::{Plain, TokenIntentView, TokenView},
};
use serde_json::{Map, Value};

use crate::wire::tokens::{token_intent, token_response};

pub(crate) const WHOLES: Wholes = Wholes { token: whole, intent: whole_intent };

/// As Get Token shows it, under the same names.
fn whole(view: TokenView) -> Plain {
    let rendered = token_response::found(&view);
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = view.detail.and_then(|it| it.shown.into_data()) {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plain::new(Value::Object(object))
}

/// As Get Token Intent shows it, with the data that it never does.
fn whole_intent(view: &TokenIntentView, data: Option<Plain>) -> Plain {
    let rendered = token_intent::found(view);
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = data {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plain::new(Value::Object(object))
}
