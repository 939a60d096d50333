//! The values of expressions, and their exact decimals.

pub(crate) mod datum;
pub(crate) mod decimal;
