//! Token writes: planned, evaluated, sealed, and passed to the store as a batch.

pub(crate) mod batch;
pub(crate) mod duplicate_identity;
pub(crate) mod evaluation;
pub(crate) mod patch;
pub(crate) mod pending_token;
