//! The audit log, the read log, and usage.

mod list_logs;
pub(crate) mod records;
mod usage;
mod vault_records;
