//! Expressions of tokens: compilation, evaluation, and the work budget.

pub mod compilation;
pub mod enrichment;
pub(crate) mod evaluation;
pub mod message;
pub mod provenance;
pub mod work_meter;
