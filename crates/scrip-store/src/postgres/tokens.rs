//! Tokens, token intents, and the entries by which tokens are found.

pub(crate) mod entries;
pub(crate) mod group;
pub(crate) mod intents;
mod listing;
mod survey;
pub(crate) mod writes;
