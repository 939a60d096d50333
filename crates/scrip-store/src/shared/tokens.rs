//! Tokens: their rows, the rules by which they are written, and lists of them.

pub(crate) mod intents;
pub(crate) mod listing;
pub(crate) mod rows;
pub(crate) mod survey;
pub(crate) mod tally;
pub(crate) mod writes;
