//! Tokens, token intents, and the entries by which tokens are found.

pub(crate) mod entries;
mod intents;
pub(crate) mod listing;
pub(crate) mod survey;
pub(crate) mod writes;
