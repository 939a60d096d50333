//! The JSON shapes: what clients write and read.

pub(crate) mod answer;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod token;
