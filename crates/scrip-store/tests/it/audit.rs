//! The chains of the audit log and the read log.

mod conformance;
pub(crate) mod trail;
mod trail_damaged;
mod trail_kept;
