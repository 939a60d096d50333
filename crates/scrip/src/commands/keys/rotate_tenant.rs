//! `scrip keys rotate tenant`: start rotations of the sealing keys of tenants.

use clap::Args;
use scrip_core::{
    keys::key_rotation::RotationPhase,
    operations::key_rotations::start_key_rotation::start_key_rotation,
};
use scrip_server::{config::Environment, operator_error::explain};
use serde_json::{Value, json};

use crate::commands::{arguments::ApprovedArguments, operator::Operator, output::CommandOutput};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys rotate tenant 5f0c…
  scrip keys rotate tenant --all

The command adds a new version of the key. A running server then uses it, encrypts the rows of the
tenant again, and destroys the old version. Fingerprints and search indexes stay the same.";

#[derive(Debug, Args)]
pub(crate) struct RotateTenantArguments {
    /// Id of the tenant, or its name.
    #[arg(value_name = "TENANT or --all", required_unless_present = "all", conflicts_with = "all")]
    tenant: Option<String>,
    /// Rotate the keys of all tenants without a running rotation.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: ApprovedArguments,
}

pub(super) fn run(
    arguments: &RotateTenantArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let parameters = json!({ "tenant": arguments.tenant, "all": arguments.all });
    arguments.common.with_approved_vault(
        environment,
        "keys rotate tenant",
        &parameters,
        async |it| rotate(it, arguments).await,
    )
}

async fn rotate(
    operator: &Operator,
    arguments: &RotateTenantArguments,
) -> anyhow::Result<CommandOutput> {
    let (mut text, mut rotations) = (String::new(), Vec::<Value>::new());
    for tenant in operator.tenants(arguments.tenant.as_deref())? {
        if arguments.all && RotationPhase::for_tenant(tenant) != RotationPhase::Idle {
            text += &format!("tenant {}: a rotation is running already\n", tenant.id);
            continue;
        }
        let permit = operator.policy_permit(tenant);
        let started = start_key_rotation(&operator.vault, permit, &*operator.key_source).await;
        let rotation = started.map_err(explain)?;
        let version = rotation.to_version;
        text += &format!("tenant {}: version {version} of its key was added\n", tenant.id);
        rotations.push(json!({ "tenant_id": tenant.id.to_string(), "version": version }));
    }
    text += "A running server does the rest. Progress: scrip keys rotation status\n";
    Ok(CommandOutput::new(text, json!({ "rotations": rotations })))
}
