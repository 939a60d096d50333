//! `scrip init`: a data directory, a root key and an empty vault, once.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, bail};
use nix::unistd::{Uid, chown};
use scrip_core::{
    Vault,
    operations::tenants::create_tenant::{create_vault_chain, initialize_vault_keys},
    policy::Directory,
};
use scrip_seal::KeySource;
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    process,
    storage::{create_folder, explain},
};

use crate::commands::{runtime, warn};

pub(crate) fn run(config: Option<&Path>, environment: &Environment) -> anyhow::Result<()> {
    let settings = Settings::load(config, environment)?;
    create_data_dir(&settings)?;
    process::confine_command(&settings.server)?;
    let created = runtime()?.block_on(create_vault(&settings))?;
    print_outcome(&settings, created)
}

/// Makes the data directory if there is none, and gives it to the user that will serve.
///
/// # Errors
/// It cannot be made.
pub(crate) fn create_data_dir(settings: &Settings) -> anyhow::Result<()> {
    let folder = &settings.storage.data_dir;
    let created = create_folder(folder)?;
    if let Some(name) =
        settings.server.user.as_ref().filter(|_| created && Uid::effective().is_root())
    {
        let user = process::find_user(name)?;
        chown(folder, Some(user.uid), Some(user.gid))
            .with_context(|| format!("{} cannot be given to {name}", folder.display()))?;
    }
    Ok(())
}

/// What was not there before.
#[derive(Debug, Clone, Copy)]
struct InitOutcome {
    created_root_key: bool,
    created_vault: bool,
}

async fn create_vault(settings: &Settings) -> anyhow::Result<InitOutcome> {
    settings.create_store().await?;
    let vault = settings.open_vault_for_command().await?;
    let known = vault.store.load_directory().await.map_err(explain)?;
    let founded = known.system_keys.is_some();
    let file = settings.root_key_file();
    if founded && settings.root_key.is_none() && !file.exists() {
        bail!(
            "this vault has a root key, but {} is missing; put it back. A new one would not open \
             the vault",
            file.display()
        );
    }
    let root_key = settings.create_root_key()?;
    let source = settings.key_source()?;
    if let Some(os_user) = &settings.os_user {
        vault.audit_trail.set_os_user(os_user);
    }
    if let Err(error) = initialize_vault_keys(&vault, &*source).await {
        if root_key && is_other_vault(&vault, &*source).await {
            fs::remove_file(&file)?;
            bail!(
                "another `scrip init` made this vault at the same time; copy its root key to {}",
                file.display()
            );
        }
        return Err(explain(error));
    }
    // An older vault may have another key.
    Directory::load(&*vault.store, &*source, None).await.map_err(explain)?;
    create_vault_chain(&vault).await.map_err(explain)?;
    vault.record_command("init", "completed").await.map_err(explain)?;
    if let Err(error) = head_file::update(&settings.head_file(), &vault).await {
        warn(&error);
    }
    Ok(InitOutcome { created_root_key: root_key, created_vault: !founded })
}

/// Whether there is a vault that a root key which was just made does not open. One of ours whose
/// outcome we did not hear of opens.
async fn is_other_vault(vault: &Vault, source: &dyn KeySource) -> bool {
    let found = vault.store.load_directory().await.is_ok_and(|it| it.system_keys.is_some());
    found && Directory::load(&*vault.store, source, None).await.is_err()
}

fn print_outcome(settings: &Settings, outcome: InitOutcome) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let (place, file) = (settings.storage.location(), settings.root_key_file());
    if outcome.created_vault {
        writeln!(out, "made a vault in {place}")?;
    } else {
        writeln!(out, "there is a vault in {place}, and its root key opens it")?;
    }
    if outcome.created_root_key {
        writeln!(
            out,
            "made a root key in {}; copy it to a safe place, apart from backups of the database:\n\
             without it nothing in the vault can ever be read",
            file.display()
        )?;
    }
    Ok(())
}
