//! Audit records of commands that work without an open vault.

use anyhow::Context;
use scrip_operator::{
    alterations::AlteredPolicies,
    error::explain,
    record_failure::{explain_record_failure, explain_unrecorded, is_storage_full},
};
use scrip_server::{config::Settings, files::head_file};

use crate::commands::{
    open_operator::{build_operator, load_operator, open_operator},
    output::{print_warnings, warn, warn_about_outcome},
};

/// Records a command that also works without the root key. Without a root key there is no record;
/// if recording fails with a root key, a warning is printed. Returns the altered policy rows, which
/// only the root key finds.
pub(crate) async fn record_if_key_present(settings: &Settings, command: &str) -> AlteredPolicies {
    let record = async {
        let vault = settings.open_vault_for_command().await?;
        let records = vault.store.load_directory().await.map_err(explain)?;
        let ring = match settings.unlock(&records).await {
            Ok(ring) => ring,
            Err(problem) if problem.is_wrong_key => return Err(problem.into()),
            Err(_) => return Ok(AlteredPolicies::default()),
        };
        let operator = build_operator(settings, vault, records, ring).await?;
        let recorded = operator.vault.record_command(command, "completed").await;
        recorded.map_err(|error| explain_record_failure(&operator.vault, error))?;
        Ok(operator.alterations)
    };
    record.await.unwrap_or_else(|error: anyhow::Error| {
        warn(&error.context("the command is not recorded in the audit log"));
        AlteredPolicies::default()
    })
}

/// Records the start of a command that works on the files of the vault and needs the root key only
/// for its records.
///
/// Errors: the root key is missing or does not open the vault, or the record cannot be written. The
/// command must not run then.
pub(crate) async fn record_start(settings: &Settings, command: &str) -> anyhow::Result<()> {
    let vault = settings.open_vault_for_command().await?;
    let operator = load_operator(settings, vault).await;
    let operator = operator.context(
        "this command is recorded in the audit log, which requires the root key; provide the root \
         key, or use --without-root-key to run without a record",
    )?;
    let recorded = operator.vault.record_command(command, "started").await;
    let alternative = "; or use --without-root-key to run without a record";
    recorded.map_err(|error| explain_unrecorded(&operator.vault, error, alternative))?;
    let saved = head_file::update_by_command(&settings.head_file(), &operator.vault).await;
    let missing_file = saved.map_err(|error| match is_storage_full(&error) {
        true => error.context(format!(
            "the disk of the head file is full, so the record cannot be secured, and the command \
             was not run. Free some space{alternative}"
        )),
        false => error.context(format!(
            "the record cannot be secured, and the command was not run. Correct the \
             cause{alternative}"
        )),
    })?;
    print_warnings(missing_file.as_slice());
    Ok(())
}

/// Records the completion of a command, and saves the chain heads. The result of the command exists
/// already, so a failure is only a warning. A missing head file is none: the start of the command
/// has saved it, or the command has created the vault of this node.
pub(crate) async fn record_completion(settings: &Settings, command: &str) {
    let record = async {
        let operator = open_operator(settings).await?;
        let recorded = operator.vault.record_command(command, "completed").await;
        recorded.map_err(|error| explain_record_failure(&operator.vault, error))?;
        anyhow::Ok(operator.vault)
    };
    match record.await {
        Err(error) => warn_about_outcome(error),
        Ok(vault) => {
            let saved = head_file::update_by_command(&settings.head_file(), &vault).await;
            if let Err(error) = saved {
                warn(&error);
            }
        }
    }
}
