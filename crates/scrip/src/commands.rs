//! Commands for the operator. They work on the store directly, with or without a running server,
//! and are authorized by the root key.

pub(crate) mod alterations;
pub(crate) mod approval;
pub(crate) mod approve;
pub(crate) mod arguments;
pub(crate) mod audit;
pub(crate) mod bin;
mod command_record;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod migrate;
mod operator;
pub(crate) mod output;
pub(crate) mod policy;
mod progress;
mod record_failure;
pub(crate) mod simulator;
pub(crate) mod status;
pub(crate) mod transfer;
mod vault_opener;

/// The runtime of a command, which uses one thread.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
