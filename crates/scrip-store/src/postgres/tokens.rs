//! Tokens, token intents and the token index.

pub(crate) mod index_entries;
pub(crate) mod intents;
mod listing;
mod newest_tokens;
pub(crate) mod write_group;
pub(crate) mod writes;
