//! The steps of the pipeline, before and after the handler.

pub mod admission;
pub mod body;
pub(crate) mod cors;
pub(crate) mod idempotency;
pub(crate) mod rejection_record;
pub(crate) mod request_observer;
