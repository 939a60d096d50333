//! The audit log, the read log, and usage.

mod list_logs;
mod records;
mod usage;
mod vault_records;
