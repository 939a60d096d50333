//! Detokenize, described.

use serde_json::json;

use crate::wire::{
    described::{Description, Tag, operation},
    schema::{Schema, any, named},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let asked = json!({
        "to": "{{ c06d0789-0a38-40be-b7cc-c28a6f76f1f1 }}",
        "last4": "{{ c06d0789-0a38-40be-b7cc-c28a6f76f1f1 | json: '$.number' | last4 }}",
    });
    let detokenizable = any().about(
        "Any JSON, with expressions in its texts: `{{ id | filters }}` for a token's data, \
         `{{ token: id | filters }}` for the whole token, `{{ token_intent: id | filters }}` for a \
         token intent.",
    );
    vec![("Detokenizable", detokenizable.examples([asked]))]
}

pub(crate) fn detokenize() -> Description {
    operation(Tag::Tokens, "Detokenize")
        .about(
            "Puts back what tokens hold, as much as the caller's transform lets be seen. A request \
             names at most as many tokens as the quota `detokenize_limit` says; one that is not \
             there is a 400.",
        )
        .body(named("Detokenizable"))
        .answer(
            200,
            "The body, with each text that holds expressions replaced.",
            any().about("What was sent, with what the expressions gave."),
        )
}
