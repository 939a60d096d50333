//! Tokens: their rows, the rules by which they are written, and lists of them.

pub(crate) mod intents;
pub(crate) mod listing;
pub(crate) mod newest_tokens;
pub(crate) mod rows;
pub(crate) mod usage_delta;
pub(crate) mod writes;
