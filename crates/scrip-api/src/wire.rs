//! The JSON formats of requests and responses.

/// Declares bodies of responses. An attribute with a question mark is left out if it is `None`.
macro_rules! bodies {
    ($($(#[$about:meta])* $visibility:vis struct $Name:ident $(<$life:lifetime>)? {
        $($attributes:tt)*
    })+) => {$(
        bodies!(@next [$(#[$about])* $visibility struct $Name $(<$life>)?] [] $($attributes)*);
    )+};
    (@next [$($head:tt)*] [$($done:tt)*]
        $(#[$of:meta])* $visibility:vis $name:ident?: $Type:ty, $($rest:tt)*
    ) => {
        bodies!(@next [$($head)*] [
            $($done)*
            $(#[$of])*
            #[serde(skip_serializing_if = "Option::is_none")]
            $visibility $name: Option<$Type>,
        ] $($rest)*);
    };
    (@next [$($head:tt)*] [$($done:tt)*]
        $(#[$of:meta])* $visibility:vis $name:ident: $Type:ty, $($rest:tt)*
    ) => {
        bodies!(@next [$($head)*] [$($done)* $(#[$of])* $visibility $name: $Type,] $($rest)*);
    };
    (@next [$($head:tt)*] [$($done:tt)*]) => {
        #[derive(serde::Serialize)]
        $($head)* { $($done)* }
    };
}

pub(crate) mod connection_formula;
pub mod json;
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
