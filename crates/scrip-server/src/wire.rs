//! The JSON shapes: what clients write and read.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod application;
pub(crate) mod described;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod query;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod tenant;
pub(crate) mod token;
