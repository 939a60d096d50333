//! The hash chains of both logs.

pub(crate) mod log;
pub(crate) mod record_scan;
