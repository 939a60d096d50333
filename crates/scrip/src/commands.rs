//! Commands for the operator. Most are actions of `scrip-operator`: a running server executes them, or
//! this process on the vault that it opens with an unlock method. This process always runs the actions
//! that need files of this machine or a stopped server.

pub(crate) mod approval;
pub(crate) mod approve;
pub(crate) mod arguments;
pub(crate) mod audit;
pub(crate) mod bin;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod keys;
mod local_action;
pub(crate) mod migrate;
pub(crate) mod output;
pub(crate) mod policy;
mod progress;
pub(crate) mod simulator;
pub(crate) mod status;
pub(crate) mod transfer;
mod vault_opener;

/// The runtime of a command, which uses one thread.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
