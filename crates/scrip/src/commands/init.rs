//! `scrip init`: create a data directory, a root key and an empty vault.

use std::{fs, path::Path};

use anyhow::{Context, bail};
use nix::unistd::{Uid, chown};
use scrip_core::{
    Vault, operations::tenants::create_tenant::create_vault_chain, policy::Directory,
};
use scrip_operator::{error::explain, record_failure::explain_record_failure};
use scrip_server::{
    config::{Environment, Settings},
    files::{create_folder, head_file},
    process,
};

use crate::commands::{
    doctor::development::describe_dev_keys,
    output::{print_output, print_warnings, warn, warn_about_outcome},
    runtime,
    vault_opener::VaultOpener,
};

pub(crate) fn run(
    config: Option<&Path>,
    data_dir: Option<String>,
    environment: &Environment,
) -> anyhow::Result<()> {
    let flags: Vec<_> = data_dir.into_iter().map(|it| ("storage.data_dir", it)).collect();
    let settings = Settings::load_with(config, &flags, environment)?;
    create_data_dir(&settings)?;
    process::confine_command(&settings.server)?;
    let created = runtime()?.block_on(create_vault(&settings))?;
    if let Some(problem) = describe_dev_keys(&settings) {
        warn(&anyhow::Error::msg(problem));
    }
    print_outcome(&settings, created)
}

/// Creates the data directory if it is missing, owned by the user of the server.
/// Returns whether it was created.
/// Errors: the directory cannot be created.
pub(crate) fn create_data_dir(settings: &Settings) -> anyhow::Result<bool> {
    let folder = &settings.storage.data_dir;
    let is_new = create_folder(folder)?;
    if let Some(name) =
        settings.server.user.as_ref().filter(|_| is_new && Uid::effective().is_root())
    {
        let user = process::find_user(name)?;
        chown(folder, Some(user.uid), Some(user.gid)).with_context(|| {
            format!("changing the owner of {} to {name} failed", folder.display())
        })?;
    }
    Ok(is_new)
}

/// The parts of a vault that `scrip init` created.
#[derive(Debug)]
struct InitOutcome {
    created_root_key: bool,
    created_vault: bool,
    opener: VaultOpener,
    unused_root_key: Option<String>,
}

async fn create_vault(settings: &Settings) -> anyhow::Result<InitOutcome> {
    settings.create_store().await?;
    let vault = settings.open_vault_for_command().await?;
    let stored_directory = vault.store.load_directory().await.map_err(explain)?;
    if stored_directory.has_lost_keys() {
        bail!(stored_directory.missing_keys_text());
    }
    let vault_exists = stored_directory.system_keys.is_some();
    let file = settings.root_key_file();
    let is_root_key_missing = settings.root_key.is_none() && !file.exists();
    let is_root_key_new = if vault_exists { false } else { settings.create_root_key()? };
    if let Some(os_user) = &settings.os_user {
        vault.audit_trail.set_os_user(os_user);
    }
    if !vault_exists && let Err(error) = settings.create_vault_keys(&vault).await {
        if is_root_key_new && is_other_vault(settings, &vault).await {
            fs::remove_file(&file)?;
            bail!(
                "another `scrip init` created this vault at the same time; copy its root key to {}",
                file.display()
            );
        }
        return Err(error);
    }
    // An existing vault may have another root key.
    let records = vault.store.load_directory().await.map_err(explain)?;
    let unused_root_key = settings.describe_unused_root_key(&records.unlocks);
    let unlocked = settings.unlock_with_method(&records).await;
    let (source, method) = unlocked.map_err(|problem| {
        if let Some(text) = &unused_root_key {
            return anyhow::Error::from(problem).context(text.clone());
        }
        if vault_exists && is_root_key_missing {
            return anyhow::anyhow!(
                "no unlock method opens this vault, and {} is missing; restore that file, because a \
                 new root key would not open the vault",
                file.display()
            );
        }
        anyhow::Error::from(problem)
    })?;
    let directory = Directory::open(records, &*source, None).map_err(explain)?;
    vault.audit_trail.set_key(directory.audit_key());
    create_vault_chain(&vault).await.map_err(explain)?;
    if let Err(error) = vault.record_command("init", "completed").await {
        warn_about_outcome(explain_record_failure(&vault, error));
    }
    match head_file::update_by_command(&settings.head_file(), &vault).await {
        // A new vault has no earlier file.
        Ok(missing_file) if vault_exists => print_warnings(missing_file.as_slice()),
        Ok(_) => (),
        Err(error) => warn(&error),
    }
    Ok(InitOutcome {
        created_root_key: is_root_key_new,
        created_vault: !vault_exists,
        opener: VaultOpener(method),
        unused_root_key,
    })
}

/// Returns whether another process created the vault: the new root key does not open it. If our own
/// transaction succeeded without a response, the key opens it.
async fn is_other_vault(settings: &Settings, vault: &Vault) -> bool {
    match vault.store.load_directory().await {
        Ok(records) if records.system_keys.is_some() => settings.unlock(&records).await.is_err(),
        Ok(_) | Err(_) => false,
    }
}

fn print_outcome(settings: &Settings, outcome: InitOutcome) -> anyhow::Result<()> {
    let (location, file) = (settings.storage.location(), settings.root_key_file());
    let mut text = if outcome.created_vault {
        format!("created a vault in {location}\n")
    } else {
        format!("a vault exists in {location}, and {}\n", outcome.opener.describe())
    };
    if let Some(note) = outcome.unused_root_key {
        text += &format!("warning: {note}\n");
    }
    if outcome.created_root_key {
        text += &format!(
            "created a root key in {}; copy it to a safe place, separate from database \
             backups:\nwithout the root key the vault is unreadable\n",
            file.display()
        );
    }
    print_output(&text)
}
