//! Messages for a command that could not be recorded in the audit log.

use std::io;

use scrip_core::{Error, Vault, store::StoreCondition, types::StoreError};

use crate::error::explain;

/// Whether a cause of the error is a full disk.
pub fn is_storage_full(error: &anyhow::Error) -> bool {
    let find_kind = |it: &(dyn std::error::Error + 'static)| {
        it.downcast_ref::<io::Error>().map(io::Error::kind)
    };
    error.chain().filter_map(find_kind).any(|it| it == io::ErrorKind::StorageFull)
}

/// Explains why a command could not be recorded and did not run. A full disk is named without the
/// error of the commit, because the operator can only free space or use the alternative.
pub fn explain_unrecorded(vault: &Vault, error: Error, alternative: &str) -> anyhow::Error {
    match vault.store.condition() {
        StoreCondition::DiskFull => anyhow::anyhow!(
            "the disk of the vault is full, so this command cannot be recorded in the audit log \
             and was not run. Free some space{alternative}"
        ),
        StoreCondition::Up | StoreCondition::CommitFailed | StoreCondition::Unreachable => {
            explain_record_failure(vault, error)
                .context("the command cannot be recorded in the audit log and was not run")
        }
    }
}

/// Returns the cause of a record that was not written.
pub fn explain_record_failure(vault: &Vault, error: Error) -> anyhow::Error {
    if vault.store.condition() == StoreCondition::DiskFull {
        return anyhow::anyhow!("the disk of the vault is full");
    }
    // A command has no queue of its own, so it waited for a transaction of another process.
    if let Error::Unavailable(cause) = &error
        && matches!(cause.downcast_ref(), Some(StoreError::Busy))
    {
        return anyhow::anyhow!(
            "an earlier commit got no response in time. PostgreSQL waits for a standby that is \
             away, or a server is overloaded: see the log of the server"
        );
    }
    explain(error)
}
