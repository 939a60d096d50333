//! The chains of the audit log and the read log.

mod conformance;
mod damaged_chain_ends;
pub(crate) mod log_files;
mod log_tampering;
mod saved_heads;
