//! Tokens: rows, write rules and lists.

pub(crate) mod listing;
pub(crate) mod newest_tokens;
pub(crate) mod rows;
pub(crate) mod writes;
