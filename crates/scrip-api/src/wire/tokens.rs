//! JSON of tokens and token intents.

pub(crate) mod bin_details;
pub(crate) mod list;
pub(crate) mod search;
pub(crate) mod token;
pub(crate) mod token_intent;
pub(crate) mod token_response;
pub(crate) mod tokenize;
