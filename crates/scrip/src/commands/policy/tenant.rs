//! `scrip tenant`: create, list, show, delete, restore, and quotas.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
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
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::{Value, json};

use crate::commands::{
    arguments::{ApprovedArguments, CommonArguments},
    operator::Operator,
    output::{CommandOutput, format_count, name_value_list, table},
};

const CREATE_EXAMPLES: &str = "\
Examples:
  scrip tenant create Acme --type production
  scrip tenant create Acme-Test --type test

The type cannot change later. Production is for real cards. Test is for development: lower rate
limits, the simulator for 3-D Secure, no grace period when the tenant is deleted.

Then create an application that can manage the tenant over HTTP:
  scrip application create --tenant Acme --name Admin --type management --all";

const QUOTA_EXAMPLES: &str = "\
Examples:
  scrip tenant quota set Acme log_retention=30d tokenize_limit=100
  scrip tenant quota set Acme rate_limit=200%

Durations are written as 90s, 15m, 24h, 30d. A running server applies a change within a second.";

const TYPE_MISSING: &str = "\
give the type of the tenant, which cannot change later:
  --type production  for real cards and personal data
  --type test        for development: lower rate limits, the simulator for 3-D Secure, and no grace
                     period when the tenant is deleted";

#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// Create a tenant with its own encryption keys.
    #[command(
        after_help = CREATE_EXAMPLES,
        override_usage = "scrip tenant create <NAME> --type <production|test> [OPTIONS]"
    )]
    Create {
        /// Display name of the tenant.
        name: String,
        /// Type of the tenant; required, because it cannot change later.
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<TenantType>,
        /// Create the tenant even if another tenant has this name.
        #[arg(long)]
        allow_duplicate_name: bool,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// List all tenants.
    List {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Show a tenant: settings, quotas and applications.
    Show {
        /// Id or name of the tenant.
        tenant: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a tenant: its API keys stop working, and its encryption keys are destroyed after
    /// `deletion_grace`.
    Delete {
        /// Id or name of the tenant.
        tenant: String,
        /// Confirm the deletion.
        #[arg(long)]
        yes: bool,
        /// Destroy its encryption keys immediately: its data can never be read or restored.
        #[arg(long)]
        now: bool,
        #[command(flatten)]
        common: ApprovedArguments,
    },
    /// Restore a deleted tenant before the end of `deletion_grace`: its API keys work again.
    Restore {
        /// Id or name of the tenant.
        tenant: String,
        #[command(flatten)]
        common: ApprovedArguments,
    },
    /// Manage quotas: limits and retention of a tenant.
    #[command(subcommand)]
    Quota(QuotaCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Show the quotas of a tenant.
    Show {
        /// Id or name of the tenant.
        tenant: String,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Set quotas of a tenant.
    #[command(after_help = QUOTA_EXAMPLES)]
    Set {
        /// Id or name of the tenant.
        tenant: String,
        /// Quota and its new value, such as `log_retention=30d`.
        #[arg(required = true, value_name = "NAME=VALUE")]
        quotas: Vec<String>,
        #[command(flatten)]
        common: ApprovedArguments,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TenantType {
    Test,
    Production,
}

pub(crate) fn run(command: &TenantCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        TenantCommand::Create { name, kind, allow_duplicate_name, common } => {
            let kind = kind.context(TYPE_MISSING)?;
            common.with_vault(environment, "tenant create", async |it| {
                if !allow_duplicate_name {
                    reject_existing_name(it, name)?;
                }
                create(it, name, kind).await
            })
        }
        TenantCommand::List { common } => {
            common.with_vault(environment, "tenant list", async |it| Ok(list_tenants(it)))
        }
        TenantCommand::Show { tenant, common } => {
            common.with_vault(environment, "tenant show", async |it| {
                Ok(tenant_output(it.find_tenant(tenant)?))
            })
        }
        TenantCommand::Delete { tenant, yes, now, common } => {
            let sure = if *yes { Confirmation::Yes } else { Confirmation::No };
            let grace = if *now { Grace::None } else { Grace::FromQuota };
            let run = async |it: &Operator| delete(it, tenant, sure, grace).await;
            // Without the confirmation, the command changes nothing.
            match sure {
                Confirmation::Yes => {
                    let parameters = json!({ "tenant": tenant, "now": now });
                    common.with_approved_vault(environment, "tenant delete", &parameters, run)
                }
                Confirmation::No => common.with_vault(environment, "tenant delete", run),
            }
        }
        TenantCommand::Restore { tenant, common } => {
            let parameters = json!({ "tenant": tenant });
            common.with_approved_vault(environment, "tenant restore", &parameters, async |it| {
                restore(it, tenant).await
            })
        }
        TenantCommand::Quota(QuotaCommand::Show { tenant, common }) => {
            common.with_vault(environment, "tenant quota show", async |it| {
                Ok(quotas_output(&it.find_tenant(tenant)?.quotas))
            })
        }
        TenantCommand::Quota(QuotaCommand::Set { tenant, quotas, common }) => {
            let parameters = json!({ "tenant": tenant, "quotas": quotas });
            common.with_approved_vault(environment, "tenant quota set", &parameters, async |it| {
                set_quotas(it, tenant, quotas).await
            })
        }
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

async fn restore(operator: &Operator, tenant: &str) -> anyhow::Result<CommandOutput> {
    let deleted_tenant = operator.find_deleted_tenant(tenant).with_context(|| {
        operator.missing_message(
            "no deleted tenant with this id or name can be restored; run: scrip tenant list",
        )
    })?;
    let restored = restore_tenant(&operator.vault, operator.policy_permit(deleted_tenant)).await;
    let id = restored.map_err(explain)?.id;
    let text = format!("restored tenant {id}; its API keys work again within a second");
    Ok(CommandOutput::new(text, json!({ "id": id.to_string(), "restored": true })))
}

fn quotas_output(quotas: &Quotas) -> CommandOutput {
    let body = json!(wire::policy::tenant::QuotasBody(quotas));
    CommandOutput::new(name_value_list(&quotas.list()), body)
}

async fn set_quotas(
    operator: &Operator,
    tenant: &str,
    pairs: &[String],
) -> anyhow::Result<CommandOutput> {
    let tenant = operator.find_tenant(tenant)?;
    let mut changes = Vec::new();
    let mut new_quotas = tenant.quotas;
    for pair in pairs {
        let (name, value) = pair.split_once('=').context("a quota is set with NAME=VALUE")?;
        new_quotas.set(name, value).map_err(explain)?;
        if changes.iter().any(|(changed_name, _)| changed_name == name) {
            bail!("{name} is set twice");
        }
        changes.push((name.to_owned(), value.to_owned()));
    }
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
