//! Tokens, token intents and the token index.

pub(crate) mod listing;
pub(crate) mod newest_tokens;
pub(crate) mod writes;
