//! Expressions of tokens: compiled, evaluated, and bounded in work.

pub mod compilation;
pub mod enrichment;
pub(crate) mod evaluation;
pub mod provenance;
pub mod work_meter;
