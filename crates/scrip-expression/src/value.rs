//! The values of expressions, their comparison, and their exact decimals.

pub(crate) mod datum;
pub(crate) mod decimal;
