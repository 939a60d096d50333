//! `scrip key`: create, delete, import.

use std::{
    io::{self, Read},
    path::PathBuf,
};

use anyhow::Context;
use clap::Subcommand;
use scrip_api::wire;
use scrip_core::{
    id::ApiKeyId,
    operations::applications::{
        create_api_key::{CreatedApiKey, create_api_key, import_api_key},
        delete_api_key::delete_api_key,
    },
    policy::ApiKeyText,
};
use scrip_server::{config::Environment, storage::explain};
use serde_json::json;
use zeroize::Zeroizing;

use crate::commands::{
    CommonArguments, Operator, output::CommandOutput, policy::application::body_as_json,
};

const IMPORT_EXAMPLES: &str = "\
Examples:
  scrip key import 5f0c… --file old-key.txt
  pass show vault/key | scrip key import 5f0c…

The key is read from a file or from standard input, never from the command line, where others
could see it. One that has neither _test_ nor _prod_ in it is a legacy key: it works, under the
rate limit of legacy keys.";

/// More than any key has.
const KEY_BYTES_MAX: u64 = 4096;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create another key for an application; the others go on working.
    Create {
        /// The application's id.
        application: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a key: it stops working within a second.
    Delete {
        /// The key's id, which is not the key.
        key: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Let an application go on with a key that was made elsewhere.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        /// The application's id.
        application: String,
        /// The file with the key [default: standard input].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: CommonArguments,
    },
}

pub(crate) fn run(command: &KeyCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        KeyCommand::Create { application, common: at } => {
            at.with_vault(environment, "key create", async |it| create(it, application).await)
        }
        KeyCommand::Delete { key, common: at } => {
            at.with_vault(environment, "key delete", async |it| delete(it, key).await)
        }
        KeyCommand::Import { application, file, common: at } => {
            // Before the settings make us another user, who may not read the file.
            let key = read_key(file.as_ref())?;
            at.with_vault(environment, "key import", async |it| import(it, application, key).await)
        }
    }
}

async fn create(operator: &Operator, application: &str) -> anyhow::Result<CommandOutput> {
    let (tenant, found) = operator.find_application(application)?;
    let (vault, pepper) = (&operator.vault, operator.directory.pepper());
    let created =
        create_api_key(vault, operator.policy_permit(tenant), pepper, found.record.id, None).await;
    let created = created.map_err(explain)?;
    let text = format!(
        "created key {} of application {}\n\n  {}\n\nThe key is not shown again.\n",
        created.record.id,
        found.record.id,
        created.api_key.expose()
    );
    Ok(CommandOutput::new(
        text,
        body_as_json(&wire::policy::application::render_created_key(&created))?,
    ))
}

async fn delete(operator: &Operator, key: &str) -> anyhow::Result<CommandOutput> {
    let id = ApiKeyId::parse(key).context("that is no id of a key; say the id, not the key")?;
    let found = operator.directory.tenants().into_iter().find_map(|tenant| {
        let mut applications = tenant.applications.values();
        let owner = applications.find(|it| it.api_keys.iter().any(|it| it.id == id))?;
        Some((tenant, owner.record.id))
    });
    let (tenant, application) = found.with_context(|| format!("there is no key {id}"))?;
    let deleted =
        delete_api_key(&operator.vault, operator.policy_permit(tenant), application, id).await;
    deleted.map_err(explain)?;
    let text = format!("deleted key {id}; it stops working within a second");
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "deleted": true })))
}

fn read_key(file: Option<&PathBuf>) -> anyhow::Result<ApiKeyText> {
    let mut text = Zeroizing::new(String::new());
    match file {
        Some(file) => {
            let cannot = || format!("{} cannot be read", file.display());
            let opened = std::fs::File::open(file).with_context(cannot)?;
            opened.take(KEY_BYTES_MAX).read_to_string(&mut text).with_context(cannot)?;
        }
        None => {
            let input = io::stdin().lock();
            input.take(KEY_BYTES_MAX).read_to_string(&mut text)?;
        }
    }
    ApiKeyText::parse(&text).map_err(explain)
}

async fn import(
    operator: &Operator,
    application: &str,
    key: ApiKeyText,
) -> anyhow::Result<CommandOutput> {
    let (tenant, found) = operator.find_application(application)?;
    let (vault, pepper) = (&operator.vault, operator.directory.pepper());
    let legacy = ApiKeyText::is_legacy(key.expose());
    let imported =
        import_api_key(vault, operator.policy_permit(tenant), pepper, found.record.id, key).await;
    let CreatedApiKey { record, .. } = imported.map_err(explain)?;
    let mut text = format!("imported key {} for application {}", record.id, found.record.id);
    if legacy {
        text += "\nit is a legacy key; make a new one when you can";
    }
    let mut output = body_as_json(&wire::policy::application::render_key(&record))?;
    if let Some(object) = output.as_object_mut() {
        object.insert("legacy".to_owned(), legacy.into());
    }
    Ok(CommandOutput::new(text, output))
}
