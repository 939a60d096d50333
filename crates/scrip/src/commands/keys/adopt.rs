//! `scrip keys adopt`: the first unlock method of a vault of an earlier version.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use scrip_operator::{
    action::ActionSpec, error::explain, operator::Operator, output::CommandOutput,
};
use scrip_seal::WrappingKey;
use scrip_server::{
    config::{Environment, Settings},
    unlock::{
        create::NewMethod,
        methods::MethodStatus,
        unlock_settings::{EnvParameters, FileParameters, UnlockSettings},
    },
};
use serde_json::json;

use crate::commands::{arguments::CommonArguments, local_action::LocalAction};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys adopt --key-file /etc/scrip/unlock.key
  scrip keys adopt --with env --variable SCRIP_UNLOCK_KEY

The root key becomes version 1 of the vault key. It is stored only in wrapped form, so the root key
file can be destroyed after its copies in old backups are not needed any more. The server may run.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AdoptKind {
    File,
    Env,
}

#[derive(Debug, Args)]
pub(crate) struct AdoptArguments {
    /// Where the wrapping key of the method is.
    #[arg(long = "with", value_enum, default_value = "file")]
    kind: AdoptKind,
    /// Key file of the method; created if it is missing [default: unlock.key next to the root key].
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Variable with the key of the method, the base64 of 32 random bytes.
    #[arg(long, value_name = "NAME", default_value = "SCRIP_UNLOCK_KEY")]
    variable: String,
    #[command(flatten)]
    common: CommonArguments,
}

pub(super) fn run(arguments: &AdoptArguments, environment: &Environment) -> anyhow::Result<()> {
    let common = &arguments.common;
    let settings = common.confined_settings(environment)?;
    let action = LocalAction::on_vault(ActionSpec::change("keys adopt"), &settings);
    common.run_local(&action, async |it| adopt(&settings, it.operator()?, arguments).await)
}

async fn adopt(
    settings: &Settings,
    operator: &Operator,
    arguments: &AdoptArguments,
) -> anyhow::Result<CommandOutput> {
    let records = operator.vault.store.load_directory().await.map_err(explain)?;
    if !records.unlocks.is_legacy() {
        anyhow::bail!("this vault has unlock methods already; run: scrip keys list");
    }
    let (method, place) = match arguments.kind {
        AdoptKind::File => {
            let file = match &arguments.key_file {
                Some(file) => file.clone(),
                None => settings.root_key_file().with_file_name("unlock.key"),
            };
            let path = prepare_key_file(&file)?;
            let place = path.display().to_string();
            let settings = UnlockSettings::File(FileParameters { path: Some(path) });
            (NewMethod { settings, label: "key file".to_owned() }, place)
        }
        AdoptKind::Env => {
            let variable = arguments.variable.clone();
            let place = variable.clone();
            let settings = UnlockSettings::Env(EnvParameters { variable });
            (NewMethod { settings, label: "environment".to_owned() }, place)
        }
    };
    let record = settings.adopt_vault(&operator.vault, &records, &method).await?;
    let old_key = match settings.root_key.is_some() {
        true => "SCRIP_ROOT_KEY".to_owned(),
        false => settings.root_key_file().display().to_string(),
    };
    let text = format!(
        "the vault key is now wrapped by the key in {place}; copy that key to a safe place, \
         separate from database backups\n{old_key} is not used any more. It still opens backups \
         that were made before, and this vault until: scrip keys rotate vault\nAfter a restart of \
         every server with the new key, destroy it and its copies\n"
    );
    Ok(CommandOutput::new(text, json!({ "method": MethodStatus::new(&record) })))
}

/// Creates the file if it is missing, and returns its absolute path.
/// Errors: the file cannot be created.
pub(super) fn prepare_key_file(file: &std::path::Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(file)?;
    if !path.exists() {
        let created = WrappingKey::create_file(&path);
        created.with_context(|| format!("{} cannot be created", path.display()))?;
    }
    Ok(path)
}
