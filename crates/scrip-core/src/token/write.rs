//! Writes of tokens: planned, evaluated, sealed, and handed to the store as a batch.

pub(crate) mod batch;
pub(crate) mod conversion;
pub(crate) mod draft;
pub(crate) mod patch;
