//! Metrics and traces.

pub(crate) mod metrics;
mod traces;
