//! What a detokenization expression sees of a whole token.

use scrip_core::{plain::Plain, token::TokenView};
use serde_json::{Map, Value};

use crate::wire::token;

/// As Get Token shows it, under the same names.
pub(crate) fn whole(view: TokenView) -> Plain {
    let rendered = token::found(&view);
    let mut object: Map<String, Value> = serde_json::from_str(&rendered.body).unwrap_or_default();
    if let Some(data) = view.detail.and_then(|it| it.shown.into_data()) {
        object.insert("data".to_owned(), data.into_exposed());
    }
    Plain::new(Value::Object(object))
}
