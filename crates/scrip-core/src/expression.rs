//! Expressions of tokens: compilation, evaluation, and the work budget.

pub mod compilation;
pub mod enrichment;
pub mod message;
