//! Metrics.

mod documented;
pub(crate) mod endpoint;
