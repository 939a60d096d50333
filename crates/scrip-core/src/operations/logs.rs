//! Operations on the audit log and the read log.

pub mod list_logs;
pub mod prune_logs;
