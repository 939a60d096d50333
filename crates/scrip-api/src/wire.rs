//! The JSON shapes: what clients write and read.

pub(crate) mod connection_formula;
pub mod fields;
pub mod json;
pub mod log;
pub mod policy;
pub(crate) mod query;
pub mod response;
pub(crate) mod threeds;
pub(crate) mod tokens;

use scrip_core::error::Error;

/// Why a request is not understood.
#[derive(Debug)]
pub enum ParseError {
    /// Not JSON, or JSON that is not read: the rule and where.
    Malformed(String),
    Failed(Error),
}

impl From<Error> for ParseError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
