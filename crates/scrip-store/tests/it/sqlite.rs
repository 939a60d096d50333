//! Tests of the SQLite engine only.

mod backup;
pub(crate) mod column_alterations;
mod expiry;
mod group_commit;
mod key_destruction;
mod metrics;
mod second_process;
mod store;
