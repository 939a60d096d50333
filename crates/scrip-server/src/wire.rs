//! The JSON shapes: what clients write and read.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod application;
pub(crate) mod card;
pub(crate) mod connection_formula;
pub(crate) mod detokenize;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod query;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod tenant;
pub(crate) mod threeds;
pub(crate) mod token;
pub(crate) mod token_intent;
pub(crate) mod tokenize;
pub(crate) mod usage;
