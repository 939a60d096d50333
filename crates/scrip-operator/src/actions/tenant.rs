//! Tenants: create, list, show, delete, restore, and quotas.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use scrip_api::wire;
use scrip_core::{
    operations::tenants::{
        create_tenant::create_tenant,
        delete_tenant::{delete_tenant, delete_tenant_by_id},
        restore_tenant::restore_tenant,
        update_tenant::set_tenant_quotas,
    },
    policy::{DisplayName, Quotas, Tenant, TenantSettings},
    types::{TenantKind, id::TenantId},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec, SecondPerson},
    error::explain,
    operator::Operator,
    output::{CommandOutput, format_count, name_value_list, table},
};

const TYPE_MISSING: &str = "\
give the type of the tenant, which cannot change later:
  --type production  for real cards and personal data
  --type test        for development: lower rate limits, the simulator for 3-D Secure, and no grace
                     period when the tenant is deleted";

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct CreateTenant {
    /// Display name of the tenant.
    name: String,
    /// Type of the tenant; required, because it cannot change later.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<TenantType>,
    /// Create the tenant even if another tenant has this name.
    #[arg(long)]
    allow_duplicate_name: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TenantType {
    Test,
    Production,
}

impl CreateTenant {
    /// Errors: the type is missing.
    pub fn check(&self) -> anyhow::Result<TenantType> {
        self.kind.context(TYPE_MISSING)
    }
}

impl Action for CreateTenant {
    const SPEC: ActionSpec = ActionSpec::change("tenant create");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let kind = self.check()?;
        if !self.allow_duplicate_name {
            reject_existing_name(operator, &self.name)?;
        }
        create(operator, &self.name, kind).await
    }
}

/// Rejects a name that a tenant has. A name then stays enough to choose a tenant in a command, and a
/// repeated command creates nothing. A deleted tenant counts while it can be restored.
fn reject_existing_name(operator: &Operator, name: &str) -> anyhow::Result<()> {
    let name = DisplayName::parse(name).map_err(explain)?;
    let has_name = |it: &&Arc<Tenant>| it.name.as_str() == name.as_str();
    let name = name.as_str();
    let duplicate = "To create another one, use --allow-duplicate-name";
    if let Some(it) = operator.directory.tenants().into_iter().find(has_name) {
        let (id, kind) = (it.id, it.kind.as_str());
        bail!("the {kind} tenant {id} is already named {name}. {duplicate}");
    }
    if let Some(it) = operator.directory.pending_deletion().iter().find(has_name) {
        let (id, kind) = (it.id, it.kind.as_str());
        let destroyed_at = it.deletes_at.map(|it| it.to_string()).unwrap_or_default();
        bail!(
            "the {kind} tenant {id} is already named {name}; it is deleted and can be restored \
             until {destroyed_at} with: scrip tenant restore {id}. {duplicate}"
        );
    }
    Ok(())
}

async fn create(
    operator: &Operator,
    name: &str,
    kind: TenantType,
) -> anyhow::Result<CommandOutput> {
    let kind = match kind {
        TenantType::Test => TenantKind::Test,
        TenantType::Production => TenantKind::Production,
    };
    let name = DisplayName::parse(name).map_err(explain)?;
    let (vault, source) = (&operator.vault, &*operator.key_source);
    let created = create_tenant(vault, source, name, kind, TenantSettings::default()).await;
    let id = created.map_err(explain)?;
    let directory = operator.reload().await?;
    let tenant = directory.tenant(id).context("the new tenant is missing")?;
    let text = format!(
        "created {} tenant {id}\n\nnext: scrip application create --tenant {id} --name Admin \
         --type management --all\n",
        kind.as_str()
    );
    Ok(CommandOutput::new(text, tenant_json(tenant)))
}

fn tenant_json(tenant: &Tenant) -> Value {
    let settings = wire::policy::tenant::settings_to_text(&tenant.settings);
    json!({
        "id": tenant.id.to_string(),
        "name": tenant.name.as_str(),
        "type": tenant.kind.as_str(),
        "settings": settings,
        "quotas": wire::policy::tenant::QuotasBody(&tenant.quotas),
        "applications": tenant.applications.len(),
        "created_at": tenant.created.at.to_string(),
    })
}

fn deleted_tenant_json(tenant: &Tenant) -> Value {
    json!({
        "id": tenant.id.to_string(),
        "name": tenant.name.as_str(),
        "type": tenant.kind.as_str(),
        "keys_destroyed_at": tenant.deletes_at.map(|it| it.to_string()),
    })
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ListTenants {}

impl Action for ListTenants {
    const SPEC: ActionSpec = ActionSpec::view("tenant list");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        Ok(list_tenants(operator))
    }
}

fn list_tenants(operator: &Operator) -> CommandOutput {
    let tenants = operator.directory.tenants();
    let row = |it: &&Arc<Tenant>| {
        let status = if it.deletes_at.is_some() { "deleted" } else { "active" };
        [
            it.id.to_string(),
            it.kind.as_str().to_owned(),
            status.to_owned(),
            it.applications.len().to_string(),
            it.created.at.to_string(),
            it.name.as_str().to_owned(),
        ]
    };
    let mut rows: Vec<_> = tenants.iter().map(row).collect();
    let deleted = operator.directory.pending_deletion();
    rows.extend(deleted.iter().map(|it| row(&it)));
    let mut text = table(["ID", "TYPE", "STATUS", "APPLICATIONS", "CREATED", "NAME"], &rows);
    for it in deleted {
        let destroyed_at = it.deletes_at.map(|it| it.to_string()).unwrap_or_default();
        text += &format!("deleted, keys will be destroyed at {destroyed_at}: {}\n", it.id);
    }
    let alterations = operator.alterations.descriptions();
    text += &operator.alterations.lines();
    let tenants: Vec<_> = tenants.into_iter().map(|it| tenant_json(it)).collect();
    let deleted: Vec<_> = deleted.iter().map(|it| deleted_tenant_json(it)).collect();
    let json = json!({ "tenants": tenants, "deleted": deleted, "alterations": alterations });
    CommandOutput::new(text, json)
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ShowTenant {
    /// Id or name of the tenant.
    tenant: String,
}

impl Action for ShowTenant {
    const SPEC: ActionSpec = ActionSpec::view("tenant show");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        Ok(tenant_output(operator.find_tenant(&self.tenant)?))
    }
}

fn tenant_output(tenant: &Tenant) -> CommandOutput {
    let mut rows = vec![
        ("id", tenant.id.to_string()),
        ("name", tenant.name.as_str().to_owned()),
        ("type", tenant.kind.as_str().to_owned()),
        ("created", tenant.created.at.to_string()),
        ("applications", tenant.applications.len().to_string()),
    ];
    let settings = wire::policy::tenant::settings_to_text(&tenant.settings);
    rows.extend(settings.iter().map(|(name, value)| (*name, value.clone())));
    rows.extend(tenant.quotas.list());
    CommandOutput::new(name_value_list(&rows), tenant_json(tenant))
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct DeleteTenant {
    /// Id or name of the tenant.
    tenant: String,
    /// Confirm the deletion.
    #[arg(long)]
    yes: bool,
    /// Destroy its encryption keys immediately: its data can never be read or restored.
    #[arg(long)]
    now: bool,
}

impl Action for DeleteTenant {
    const SPEC: ActionSpec = ActionSpec::approved_change("tenant delete");

    /// Without the confirmation, the action changes nothing.
    fn second_person(&self) -> SecondPerson {
        if self.yes { Self::SPEC.second_person } else { SecondPerson::Never }
    }

    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        operator.name_entities(json!({ "tenant": self.tenant, "now": self.now }))
    }

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        let confirmation = if self.yes { Confirmation::Yes } else { Confirmation::No };
        let grace = if self.now { Grace::None } else { Grace::FromQuota };
        delete(operator, &self.tenant, confirmation, grace).await
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Yes,
    No,
}

/// Whether a deletion can be undone for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grace {
    FromQuota,
    None,
}

async fn delete(
    operator: &Operator,
    tenant: &str,
    confirmation: Confirmation,
    grace: Grace,
) -> anyhow::Result<CommandOutput> {
    if grace == Grace::FromQuota
        && let Ok(found_tenant) = operator.find_tenant(tenant)
        && !found_tenant.quotas.deletion_grace().is_zero()
    {
        return delete_with_grace(operator, found_tenant, confirmation).await;
    }
    // A tenant with an altered policy has no trusted name, only an id.
    let altered = TenantId::parse(tenant).filter(|it| operator.alterations.contains(*it));
    let (id, description, quotas) = match altered {
        Some(id) => (id, "with an altered policy".to_owned(), None),
        None => {
            let deleted = operator.find_deleted_tenant(tenant).filter(|_| grace == Grace::None);
            let it = deleted.map_or_else(|| operator.find_tenant(tenant), Ok)?;
            let applications = format_count(it.applications.len(), "application");
            let description = format!("({}) with {applications}", it.name.as_str());
            (it.id, description, Some(it.quotas))
        }
    };
    if confirmation == Confirmation::No {
        bail!(
            "this destroys the encryption keys of tenant {id} {description}; its data can never be \
             read again. Use --yes to confirm"
        );
    }
    delete_tenant_by_id(&operator.vault, id, quotas).await.map_err(explain)?;
    let text = format!(
        "deleted tenant {id}: its encryption keys are destroyed, and its tokens are unreadable. A \
         running server purges the remaining rows"
    );
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "deleted": true })))
}

async fn delete_with_grace(
    operator: &Operator,
    tenant: &Arc<Tenant>,
    confirmation: Confirmation,
) -> anyhow::Result<CommandOutput> {
    let (id, name) = (tenant.id, tenant.name.as_str());
    if confirmation == Confirmation::No {
        bail!(
            "this stops the API keys of tenant {id} ({name}) and destroys its encryption keys \
             after its deletion_grace. Use --yes to confirm"
        );
    }
    let deleted = delete_tenant(&operator.vault, operator.policy_permit(tenant)).await;
    let destroyed_at = deleted.map_err(explain)?.map(|it| it.to_string()).unwrap_or_default();
    let text = format!(
        "deleted tenant {id}: its API keys stop working within a second, and its encryption keys \
         will be destroyed at {destroyed_at}. To undo this run: scrip tenant restore {id}"
    );
    let json = json!({ "id": id.to_string(), "deleted": true, "keys_destroyed_at": destroyed_at });
    Ok(CommandOutput::new(text, json))
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct RestoreTenant {
    /// Id or name of the tenant.
    tenant: String,
}

impl Action for RestoreTenant {
    const SPEC: ActionSpec = ActionSpec::approved_change("tenant restore");

    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        let tenant = find_restorable(operator, &self.tenant)?;
        operator.name_entities(json!({ "tenant": tenant.id.to_string() }))
    }

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        restore(operator, &self.tenant).await
    }
}

fn find_restorable<'a>(operator: &'a Operator, tenant: &str) -> anyhow::Result<&'a Arc<Tenant>> {
    operator.find_deleted_tenant(tenant).with_context(|| {
        operator.missing_message(
            "no deleted tenant with this id or name can be restored; run: scrip tenant list",
        )
    })
}

async fn restore(operator: &Operator, tenant: &str) -> anyhow::Result<CommandOutput> {
    let deleted_tenant = find_restorable(operator, tenant)?;
    let restored = restore_tenant(&operator.vault, operator.policy_permit(deleted_tenant)).await;
    let id = restored.map_err(explain)?.id;
    let text = format!("restored tenant {id}; its API keys work again within a second");
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "restored": true })))
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ShowTenantQuotas {
    /// Id or name of the tenant.
    tenant: String,
}

impl Action for ShowTenantQuotas {
    const SPEC: ActionSpec = ActionSpec::view("tenant quota show");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        Ok(quotas_output(&operator.find_tenant(&self.tenant)?.quotas))
    }
}

fn quotas_output(quotas: &Quotas) -> CommandOutput {
    let body = json!(wire::policy::tenant::QuotasBody(quotas));
    CommandOutput::new(name_value_list(&quotas.list()), body)
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct SetTenantQuotas {
    /// Id or name of the tenant.
    tenant: String,
    /// Quota and its new value, such as `log_retention=30d`.
    #[arg(required = true, value_name = "NAME=VALUE")]
    quotas: Vec<String>,
}

impl Action for SetTenantQuotas {
    const SPEC: ActionSpec = ActionSpec::approved_change("tenant quota set");

    fn parameters(&self, operator: &Operator) -> anyhow::Result<Value> {
        parse_quotas(&self.quotas)?;
        operator.name_entities(serde_json::to_value(self)?)
    }

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        set_quotas(operator, &self.tenant, &self.quotas).await
    }
}

/// The names and values. Errors: a pair is malformed, or a value is out of its range.
fn parse_quotas(pairs: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let mut changes = Vec::new();
    let mut quotas = Quotas::default_for(TenantKind::Test);
    for pair in pairs {
        let (name, value) = pair.split_once('=').context("a quota is set with NAME=VALUE")?;
        quotas.set(name, value).map_err(explain)?;
        if changes.iter().any(|(changed_name, _)| changed_name == name) {
            bail!("{name} is set twice");
        }
        changes.push((name.to_owned(), value.to_owned()));
    }
    Ok(changes)
}

async fn set_quotas(
    operator: &Operator,
    tenant: &str,
    pairs: &[String],
) -> anyhow::Result<CommandOutput> {
    let tenant = operator.find_tenant(tenant)?;
    let changes = parse_quotas(pairs)?;
    let edit = Box::new(move |mut quotas: Quotas| {
        // The values were validated above.
        changes.iter().for_each(|(name, value)| drop(quotas.set(name, value)));
        quotas
    });
    let before = tenant.quotas;
    let record = set_tenant_quotas(&operator.vault, operator.policy_permit(tenant), edit).await;
    let quotas = record.map_err(explain)?.quotas;
    let mut rows = quotas.list();
    for ((_, value), (_, earlier_value)) in rows.iter_mut().zip(before.list()) {
        if *value != earlier_value {
            *value = format!("{value}  changed, was {earlier_value}");
        }
    }
    Ok(CommandOutput { text: name_value_list(&rows), ..quotas_output(&quotas) })
}
