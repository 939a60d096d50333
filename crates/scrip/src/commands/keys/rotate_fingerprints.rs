//! `scrip keys rotate fingerprints`: replace the keys of fingerprints and search indexes.

use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use scrip_core::{
    operations::key_rotations::rotate_fingerprints::{
        DigestStep, FINGERPRINT_TABLES, finish_fingerprint_rotation, load_renewed_tenant,
        rotate_digests, start_fingerprint_rotation,
    },
    policy::{PolicyPermit, Tenant},
};
use scrip_operator::{
    action::approval_text, error::explain, operator::Operator, output::CommandOutput,
};
use scrip_server::config::{Environment, Settings};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::commands::{
    approval::offline::{is_in_force, request_from_server, use_without_server},
    arguments::ApprovedArguments,
    open_operator::{load_operator, run_recorded_command},
    output::print_message,
    runtime,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys rotate fingerprints --tenant 5f0c… --yes
  scrip keys rotate fingerprints --yes

Stop all servers first. The command decrypts every token, and computes its fingerprint and search
indexes again. Fingerprints that clients have stored match nothing afterwards. After an interruption, run
the command again: no server opens the vault before it has finished.";

/// Rows of one transaction.
const STEP: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct RotateFingerprintsArguments {
    /// Id of one tenant, or its name [default: all tenants].
    #[arg(long)]
    tenant: Option<String>,
    /// Confirm that all fingerprints change.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    common: ApprovedArguments,
}

pub(super) fn run(
    arguments: &RotateFingerprintsArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    if !arguments.yes {
        bail!(
            "every fingerprint would change, and those that clients have stored would match nothing; \
             nothing was changed. Use --yes to confirm"
        );
    }
    let settings = arguments.common.confined_settings(environment)?;
    let parameters = json!({ "tenant": arguments.tenant });
    let action = approval_text("keys rotate fingerprints", &parameters)?;
    request_from_server(&settings, arguments.common.wait, &action)?;
    let output = runtime()?.block_on(async {
        let _lock = settings.lock_data_dir()?;
        let vault = settings.open_vault_exclusively().await?;
        let operator = load_operator(&settings, vault).await?;
        let is_set = settings.keys.dual_control;
        let mut tenants = operator.directory.tenants().into_iter();
        let is_unfinished = tenants.any(|it| it.keys.is_renewing_fingerprints());
        let selection = if is_unfinished && is_in_force(&operator, is_set).await? {
            // The interrupted rotation was approved, and no server can start before it has finished.
            // Other tenants need an approval of their own.
            TenantSelection::Unfinished
        } else {
            use_without_server(&operator, &action, is_set).await?;
            TenantSelection::Chosen(arguments.tenant.as_deref())
        };
        let work = rotate(&settings, &operator, selection);
        run_recorded_command(&operator, "keys rotate fingerprints", work).await
    })?;
    arguments.common.print_output(&output)
}

/// The tenants that get new keys.
#[derive(Debug, Clone, Copy)]
enum TenantSelection<'a> {
    /// One tenant, or all, and those with an interrupted rotation.
    Chosen(Option<&'a str>),
    /// Only those with an interrupted rotation.
    Unfinished,
}

async fn rotate(
    settings: &Settings,
    operator: &Operator,
    selection: TenantSelection<'_>,
) -> anyhow::Result<CommandOutput> {
    // A rotation that was interrupted continues in any case: without it, no server starts.
    let mut tenants = match selection {
        TenantSelection::Chosen(tenant) => operator.tenants(tenant)?,
        TenantSelection::Unfinished => Vec::new(),
    };
    let is_selected = |id| tenants.iter().any(|it| it.id == id);
    let unfinished: Vec<_> = operator
        .directory
        .tenants()
        .into_iter()
        .filter(|it| it.keys.is_renewing_fingerprints() && !is_selected(it.id))
        .collect();
    tenants.extend(unfinished);
    let (mut text, mut results) = (String::new(), Vec::<Value>::new());
    for tenant in tenants {
        let DigestStep { changed, unopened, .. } =
            rotate_tenant(settings, operator, tenant).await?;
        text +=
            &format!("tenant {}: {changed} rows have new fingerprints and indexes\n", tenant.id);
        if unopened > 0 {
            text += &format!(
                "tenant {}: {unopened} rows cannot be read and keep their values; see: scrip doctor\n",
                tenant.id
            );
        }
        let id = tenant.id.to_string();
        results.push(json!({ "tenant_id": id, "rows": changed, "unopened_rows": unopened }));
    }
    Ok(CommandOutput::new(text, json!({ "tenants": results })))
}

async fn rotate_tenant(
    settings: &Settings,
    operator: &Operator,
    tenant: &Arc<Tenant>,
) -> anyhow::Result<DigestStep> {
    let (vault, source) = (&operator.vault, &*operator.key_source);
    let permit = operator.policy_permit(tenant);
    start_fingerprint_rotation(vault, permit, source).await.map_err(explain)?;
    print_message(&format!(
        "tenant {}: new keys are stored; do not start a server before this command has finished",
        tenant.id
    ));
    if settings.storage.url.is_some() {
        // A server on another machine rejects all requests by then.
        sleep(settings.keys.promote_after_seconds.seconds()).await;
    }
    let renewed = load_renewed_tenant(vault, tenant, source).await.map_err(explain)?;
    let mut total = DigestStep { changed: 0, unopened: 0, last: None };
    for table in FINGERPRINT_TABLES {
        let mut last = None;
        loop {
            let step = rotate_digests(vault, &renewed, table, last, STEP).await.map_err(explain)?;
            total.changed = total.changed.saturating_add(step.changed);
            total.unopened = total.unopened.saturating_add(step.unopened);
            last = step.last;
            if last.is_none() {
                break;
            }
        }
    }
    // The policy of the tenant as it is stored now.
    let directory = operator.reload().await?;
    let Some(current) = directory.tenant(tenant.id) else {
        bail!("the policy of tenant {} was altered outside the vault", tenant.id);
    };
    let permit: PolicyPermit = operator.policy_permit(current);
    finish_fingerprint_rotation(vault, permit, source).await.map_err(explain)?;
    Ok(total)
}
