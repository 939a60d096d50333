//! The JSON formats of requests and responses.

pub(crate) mod connection_formula;
pub mod fields;
pub mod json;
pub(crate) mod list_parameters;
pub mod log;
pub mod policy;
pub(crate) mod proxies;
pub(crate) mod query;
pub mod response;
pub(crate) mod threeds;
pub(crate) mod tokens;
pub(crate) mod webhooks;

use scrip_core::Error;

/// Why a request cannot be parsed.
#[derive(Debug)]
pub enum ParseError {
    /// Not JSON, or JSON that is not accepted. The text states the rule and the position.
    Malformed(String),
    Failed(Error),
}

impl From<Error> for ParseError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
