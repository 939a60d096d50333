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
    action::ActionSpec, error::explain, operator::Operator, output::CommandOutput,
};
use scrip_server::config::{Environment, Settings};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::commands::{
    arguments::ApprovedArguments, local_action::LocalAction, output::print_message,
};

const SPEC: ActionSpec = ActionSpec::approved_change("keys rotate fingerprints");

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
    let common = &arguments.common;
    let settings = common.confined_settings(environment)?;
    let action = LocalAction {
        needs_stopped_server: true,
        is_continued: |it| !unfinished_tenants(it).is_empty(),
        ..LocalAction::on_vault(SPEC, &settings)
    };
    let action = action.approved(&json!({ "tenant": arguments.tenant }), common.wait)?;
    common.run_local(&action, async |it| {
        let operator = it.operator()?;
        let tenants = match it.is_continued {
            // No server can start before the interrupted rotation has finished. Other tenants need an
            // approval of their own.
            true => Vec::new(),
            false => operator.tenants(arguments.tenant.as_deref())?,
        };
        rotate(&settings, operator, tenants).await
    })
}

/// The tenants with an interrupted rotation.
fn unfinished_tenants(operator: &Operator) -> Vec<&Arc<Tenant>> {
    let mut tenants = operator.directory.tenants();
    tenants.retain(|it| it.keys.is_renewing_fingerprints());
    tenants
}

/// Gives new keys to these tenants, and to those with an interrupted rotation.
async fn rotate(
    settings: &Settings,
    operator: &Operator,
    mut tenants: Vec<&Arc<Tenant>>,
) -> anyhow::Result<CommandOutput> {
    // A rotation that was interrupted continues in any case: without it, no server starts.
    let mut unfinished = unfinished_tenants(operator);
    unfinished.retain(|tenant| tenants.iter().all(|it| it.id != tenant.id));
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
