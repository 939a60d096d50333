//! Start rotations of the sealing keys of tenants.

use clap::Args;
use scrip_core::{
    keys::key_rotation::RotationPhase,
    operations::key_rotations::start_key_rotation::start_key_rotation,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec},
    error::explain,
    operator::Operator,
    output::CommandOutput,
};

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct RotateTenantKey {
    /// Id of the tenant, or its name.
    #[arg(value_name = "TENANT or --all", required_unless_present = "all", conflicts_with = "all")]
    tenant: Option<String>,
    /// Rotate the keys of all tenants without a running rotation.
    #[arg(long)]
    all: bool,
}

impl Action for RotateTenantKey {
    const SPEC: ActionSpec = ActionSpec::approved_change("keys rotate tenant");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        rotate(operator, self).await
    }
}

async fn rotate(operator: &Operator, arguments: &RotateTenantKey) -> anyhow::Result<CommandOutput> {
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
