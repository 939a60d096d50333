//! Tokens, token intents, and the entries by which tokens are found.

pub(crate) mod index_entries;
mod intents;
pub(crate) mod listing;
pub(crate) mod newest_tokens;
pub(crate) mod writes;
