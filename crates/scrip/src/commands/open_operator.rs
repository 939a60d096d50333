//! Opens the vault for a command that runs without a server, or that a server cannot run.

use std::sync::Arc;

use scrip_core::{
    Vault,
    policy::{Directory, DirectoryRecords},
};
use scrip_operator::{
    action::run_recorded,
    error::explain,
    operator::{OpenedVault, Operator},
};
use scrip_seal::KeySource;
use scrip_server::config::Settings;

use crate::commands::output::print_warnings;

pub(crate) async fn open_operator(settings: &Settings) -> anyhow::Result<Operator> {
    let vault = settings.open_vault_for_command().await?;
    load_operator(settings, vault).await
}

/// Loads the directory of an open vault, which needs the root key.
pub(crate) async fn load_operator(settings: &Settings, vault: Vault) -> anyhow::Result<Operator> {
    let records = vault.store.load_directory().await.map_err(explain)?;
    let ring = settings.unlock(&records).await?;
    build_operator(settings, vault, records, ring).await
}

/// As [`load_operator`], with the rows and the keys that the caller has loaded.
pub(crate) async fn build_operator(
    settings: &Settings,
    vault: Vault,
    records: DirectoryRecords,
    key_source: Arc<dyn KeySource>,
) -> anyhow::Result<Operator> {
    let directory = Directory::open(records, &*key_source, None).map_err(explain)?;
    vault.audit_trail.set_key(directory.audit_key());
    if let Some(os_user) = &settings.os_user {
        vault.audit_trail.set_os_user(os_user);
    }
    let (directory, head_file) = (Arc::new(directory), settings.head_file());
    let opened = OpenedVault { vault, key_source, directory, head_file };
    Operator::new(opened, settings.os_user.clone()).await
}

/// Runs a command that is not an action between its two records, and prints warnings about them.
pub(crate) async fn run_recorded_command<T>(
    operator: &Operator,
    name: &str,
    command: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut warnings = Vec::new();
    let result = run_recorded(operator, name, command, &mut warnings).await;
    print_warnings(&warnings);
    result
}
