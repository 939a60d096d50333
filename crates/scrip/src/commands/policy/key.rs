//! `scrip key`: create, list, find, delete, import.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_api::wire;
use scrip_core::{
    operations::applications::{
        create_api_key::{CreatedApiKey, create_api_key, import_api_key},
        delete_api_key::delete_api_key,
    },
    policy::ApiKeyText,
    types::id::ApiKeyId,
};
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::commands::{
    arguments::{ApprovedArguments, CommonArguments},
    operator::Operator,
    output::{CommandOutput, table},
    policy::{application::body_as_json, key_find},
};

const IMPORT_EXAMPLES: &str = "\
Examples:
  scrip key import 5f0c… --file old-key.txt
  pass show vault/key | scrip key import 5f0c…

The key is read from a file or from standard input, never from the command line, which other users
can see. A key that contains neither _test_ nor _prod_ is a legacy key: it works, with the rate limit
of legacy keys.";

const FIND_EXAMPLES: &str = "\
Examples:
  scrip key find --file leaked.txt
  scrip key find                     Paste the key, then press Enter and Ctrl-D

The key is read from a file or from standard input, never from the command line, which other users
can see. The command prints the id of the key, never the key.";

/// Longer than any key, also with white space around it.
const KEY_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create another key for an application; existing keys keep working.
    Create {
        /// Id of the application.
        application: String,
        #[command(flatten)]
        common: ApprovedArguments,
    },
    /// List keys: ids, applications and times, never the keys.
    List {
        /// Id or name of the tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// Id of the application.
        #[arg(long)]
        application: Option<String>,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Find the application, the id and the last use of a key, for example of a leaked key.
    #[command(after_help = FIND_EXAMPLES)]
    Find {
        /// File with the key [default: standard input].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a key: it stops working within a second.
    Delete {
        /// Id of the key (not the key itself).
        key: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Import a key that was created elsewhere.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        /// Id of the application.
        application: String,
        /// File with the key [default: standard input].
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        common: ApprovedArguments,
    },
}

pub(crate) fn run(command: &KeyCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        KeyCommand::Create { application, common } => {
            let parameters = json!({ "application": application });
            common.with_approved_vault(environment, "key create", &parameters, async |it| {
                create(it, application).await
            })
        }
        KeyCommand::List { tenant, application, common } => {
            common.with_vault(environment, "key list", async |it| {
                list(it, tenant.as_deref(), application.as_deref())
            })
        }
        KeyCommand::Find { file, common } => {
            // Before switching to the server's user, who may not be able to read the file.
            let text = read_key_text(file.as_ref())?;
            common.with_vault(environment, "key find", async |it| {
                key_find::find_key(it, text.trim()).await
            })
        }
        KeyCommand::Delete { key, common } => {
            common.with_vault(environment, "key delete", async |it| delete(it, key).await)
        }
        KeyCommand::Import { application, file, common } => {
            // Before switching to the server's user, who may not be able to read the file.
            let text = read_key_text(file.as_ref())?;
            let key = ApiKeyText::parse(&text).map_err(explain)?;
            let parameters = json!({ "application": application, "file": file });
            common.with_approved_vault(environment, "key import", &parameters, async |it| {
                import(it, application, key).await
            })
        }
    }
}

async fn create(operator: &Operator, id_text: &str) -> anyhow::Result<CommandOutput> {
    let (tenant, application) = operator.find_application(id_text)?;
    let (vault, pepper) = (&operator.vault, operator.directory.pepper());
    let created =
        create_api_key(vault, operator.policy_permit(tenant), pepper, application.record.id, None)
            .await;
    let created = created.map_err(explain)?;
    let text = format!(
        "created key {} of application {}\n\n  {}\n\nThe key cannot be displayed again.\n",
        created.record.id,
        application.record.id,
        created.api_key.expose()
    );
    Ok(CommandOutput::new(
        text,
        body_as_json(&wire::policy::application::render_created_key(&created))?,
    ))
}

fn list(
    operator: &Operator,
    tenant: Option<&str>,
    application: Option<&str>,
) -> anyhow::Result<CommandOutput> {
    let application = application.map(|it| operator.find_application(it)).transpose()?;
    let application_id = application.map(|(_, it)| it.record.id);
    let mut keys = Vec::new();
    for tenant in operator.tenants(tenant)? {
        for it in tenant.applications.values() {
            if application_id.is_none_or(|id| it.record.id == id) {
                keys.extend(it.api_keys.iter().map(|key| (tenant, &it.record, key)));
            }
        }
    }
    keys.sort_by_key(|(_, _, key)| (key.created.at, key.id));
    let rows = keys.iter().map(|(tenant, application, key)| {
        [
            key.id.to_string(),
            key.created.at.to_string(),
            application.kind.as_str().to_owned(),
            application.id.to_string(),
            tenant.name.as_str().to_owned(),
            application.name.as_str().to_owned(),
        ]
    });
    let names = ["ID", "CREATED", "TYPE", "APPLICATION", "TENANT", "NAME"];
    let alterations = operator.alterations.descriptions();
    let mut text = table(names, &rows.collect::<Vec<_>>());
    text += &operator.alterations.lines();
    let bodies = keys.iter().map(|(tenant, application, key)| {
        json!({
            "id": key.id.to_string(),
            "created_at": key.created.at.to_string(),
            "created_by": key.created.by.map(|it| it.to_string()),
            "application": key_find::application_json(application),
            "tenant": key_find::tenant_json(tenant),
        })
    });
    let bodies: Vec<Value> = bodies.collect();
    Ok(CommandOutput::new(text, json!({ "keys": bodies, "alterations": alterations })))
}

async fn delete(operator: &Operator, key: &str) -> anyhow::Result<CommandOutput> {
    let id =
        ApiKeyId::parse(key).context("this is not the id of a key; use the id, not the key")?;
    let owner = operator.directory.tenants().into_iter().find_map(|tenant| {
        let mut applications = tenant.applications.values();
        let owner = applications.find(|it| it.api_keys.iter().any(|it| it.id == id))?;
        Some((tenant, owner.record.id))
    });
    let (tenant, application) = owner.with_context(|| {
        operator.missing_message(&format!("key {id} does not exist; run: scrip key list"))
    })?;
    let deleted =
        delete_api_key(&operator.vault, operator.policy_permit(tenant), application, id).await;
    deleted.map_err(explain)?;
    let text = format!("deleted key {id}; it stops working within a second");
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "deleted": true })))
}

fn read_key_text(file: Option<&PathBuf>) -> anyhow::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    let name = file.map_or("standard input".to_owned(), |it| it.display().to_string());
    let error_context = || format!("{name} cannot be read");
    let input: Box<dyn Read> = match file {
        Some(file) => Box::new(File::open(file).with_context(error_context)?),
        None => Box::new(io::stdin().lock()),
    };
    // One more byte shows that the input is too long.
    let mut input = input.take(KEY_BYTES_MAX.saturating_add(1));
    input.read_to_string(&mut text).with_context(error_context)?;
    if u64::try_from(text.len())? > KEY_BYTES_MAX {
        bail!("{name} is longer than 1 MiB; give only the key");
    }
    Ok(text)
}

async fn import(
    operator: &Operator,
    id_text: &str,
    key: ApiKeyText,
) -> anyhow::Result<CommandOutput> {
    let (tenant, application) = operator.find_application(id_text)?;
    let (vault, pepper) = (&operator.vault, operator.directory.pepper());
    let is_legacy = ApiKeyText::is_legacy(key.expose());
    let imported =
        import_api_key(vault, operator.policy_permit(tenant), pepper, application.record.id, key)
            .await;
    let CreatedApiKey { record, .. } = imported.map_err(explain)?;
    let mut text = format!("imported key {} for application {}", record.id, application.record.id);
    if is_legacy {
        text += "\nit is a legacy key; replace it with a new key when you can";
    }
    let mut json = body_as_json(&wire::policy::application::render_key(&record))?;
    if let Some(object) = json.as_object_mut() {
        object.insert("legacy".to_owned(), is_legacy.into());
    }
    Ok(CommandOutput::new(text, json))
}
