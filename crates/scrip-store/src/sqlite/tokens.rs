//! Tokens, token intents, and the entries by which tokens are found.

pub(crate) mod entries;
mod intents;
mod listing;
mod survey;
pub(crate) mod writes;
