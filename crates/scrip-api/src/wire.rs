//! The JSON shapes: what clients write and read.

pub mod answer;
pub(crate) mod connection_formula;
pub mod fields;
pub mod json;
pub mod log;
pub mod policy;
pub(crate) mod query;
pub(crate) mod threeds;
pub(crate) mod tokens;
