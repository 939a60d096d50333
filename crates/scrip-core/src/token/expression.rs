//! Expressions of tokens: compiled, evaluated, and bounded in work.

pub mod compiled;
pub mod enrichment;
pub(crate) mod evaluation;
pub mod marks;
pub mod work;
