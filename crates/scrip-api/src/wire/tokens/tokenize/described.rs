//! Tokenize, described.

use serde_json::json;

use crate::wire::{
    described::{Description, Tag, operation},
    schema::{Schema, any, either, list, map, named, null, text},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let asked = json!({
        "customer": {"name": "Jo", "card": {"type": "card", "data": {"number": "4242424242424242"}}},
        "tags": ["a", null],
    });
    let tokenizable = any().about(
        "Any JSON. An object with `type` and `data`, or with a `token_intent_id`, is a token as \
         `NewToken` describes it; any other text, number or truth value becomes a token of type \
         `token`; null and what is empty stay.",
    );
    // An object is a token, or holds nothing but what this describes.
    let tokenized = either([
        named("CreatedToken"),
        map(named("Tokenized")),
        list(named("Tokenized")),
        text().about("A token's id."),
        null(),
    ])
    .about(
        "The body, with each token in its place: the token where one was asked for, else its id.",
    );
    vec![("Tokenizable", tokenizable.examples([asked])), ("Tokenized", tokenized)]
}

pub(crate) fn tokenize() -> Description {
    operation(Tag::Tokens, "Tokenize")
        .about(
            "Makes tokens of what stands anywhere in a body: all of them or none. At most as many \
             as the quota `tokenize_limit` says.",
        )
        .body(named("Tokenizable"))
        .answer(200, "The body with its tokens.", named("Tokenized"))
}
