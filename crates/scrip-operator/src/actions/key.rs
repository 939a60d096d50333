//! API keys: create, list, delete, import.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use scrip_api::wire;
use scrip_core::{
    operations::applications::{
        create_api_key::{CreatedApiKey, create_api_key, import_api_key},
        delete_api_key::delete_api_key,
    },
    policy::ApiKeyText,
    types::id::ApiKeyId,
};
use scrip_types::hex::encode_hex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec},
    actions::{application::body_as_json, key_find},
    error::explain,
    operator::Operator,
    output::{Column, CommandOutput},
    secret_text::SecretText,
};

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct CreateKey {
    /// Id of the application.
    application: String,
}

impl Action for CreateKey {
    const SPEC: ActionSpec = ActionSpec::approved_change("key create");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        create(operator, &self.application).await
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
    let json = body_as_json(&wire::policy::application::render_created_key(&created))?;
    let application = application.record.id.to_string();
    Ok(CommandOutput::new(text, json).with("application_id", application, ""))
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListKeys {
    /// Id or name of the tenant.
    #[arg(long)]
    tenant: Option<String>,
    /// Id of the application.
    #[arg(long)]
    application: Option<String>,
}

impl Action for ListKeys {
    const SPEC: ActionSpec = ActionSpec::view("key list");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let application = self.application.as_deref();
        let application = application.map(|it| operator.find_application(it)).transpose()?;
        let application_id = application.map(|(_, it)| it.record.id);
        let mut keys = Vec::new();
        for tenant in operator.tenants(self.tenant.as_deref())? {
            for it in tenant.applications.values() {
                if application_id.is_none_or(|id| it.record.id == id) {
                    keys.extend(it.api_keys.iter().map(|key| (tenant, &it.record, key)));
                }
            }
        }
        keys.sort_by_key(|(_, _, key)| (key.created.at, key.id));
        let rows = keys.iter().map(|(tenant, application, key)| {
            json!({
                "id": key.id.to_string(),
                "created_at": key.created.at.to_string(),
                "created_by": key.created.by.map(|it| it.to_string()),
                "application": key_find::application_json(application),
                "tenant": key_find::tenant_json(tenant),
            })
        });
        let rows: Vec<Value> = rows.collect();
        let columns = [
            Column::new("ID", "/id"),
            Column::new("CREATED", "/created_at"),
            Column::new("TYPE", "/application/type"),
            Column::new("APPLICATION", "/application/id"),
            Column::new("TENANT", "/tenant/name"),
            Column::new("NAME", "/application/name"),
        ];
        Ok(operator.with_alterations(CommandOutput::list("keys", columns, rows)))
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct DeleteKey {
    /// Id of the key (not the key itself).
    key: String,
}

impl Action for DeleteKey {
    const SPEC: ActionSpec = ActionSpec::change("key delete");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        delete(operator, &self.key).await
    }
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

/// Digits of the digest of an imported key in an approval: 128 bits.
const DIGEST_DIGITS: usize = 32;

#[derive(Debug, Serialize, Deserialize)]
pub struct ImportKey {
    pub application: String,
    /// Where the key is from; `None` for standard input.
    pub file: Option<PathBuf>,
    pub key: SecretText,
}

impl Action for ImportKey {
    const SPEC: ActionSpec = ActionSpec::approved_change("key import");

    /// The keyed digest stands for the key, so that the approval is not valid for another key.
    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        let key = ApiKeyText::parse(self.key.expose()).map_err(explain)?;
        let digest = encode_hex(&operator.directory.digest(key.expose()));
        let digest = digest.get(..DIGEST_DIGITS).unwrap_or_default();
        operator.name_entities(
            json!({ "application": self.application, "file": self.file, "key_digest": digest }),
        )
    }

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let key = ApiKeyText::parse(self.key.expose()).map_err(explain)?;
        import(operator, &self.application, key).await
    }
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
    let json = body_as_json(&wire::policy::application::render_key(&record))?;
    let application = application.record.id.to_string();
    let output = CommandOutput::new(text, json).with("legacy", is_legacy, "");
    Ok(output.with("application_id", application, ""))
}
