//! Tokens, token intents and the token index.

mod listing;
mod newest_tokens;
pub(crate) mod write_group;
pub(crate) mod writes;
