//! Rotations of sealing keys: show, pause, resume.

use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use scrip_core::{
    change::ChangeOutcome,
    keys::key_rotation::{KeyRotation, RotationPhase, VersionCount, sealing_key_created_at},
    operations::key_rotations::finish_key_rotation::count_versions,
    policy::Tenant,
    store::RotationMark,
};
use scrip_seal::{AuditKeyPhase, KeyHistory};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    action::{Action, ActionSpec},
    error::explain,
    operator::Operator,
    output::{CommandOutput, table},
};

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ShowKeyRotation {
    /// Id of one tenant, or its name.
    tenant: Option<String>,
}

impl Action for ShowKeyRotation {
    const SPEC: ActionSpec = ActionSpec::view("keys rotation status");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        show_status(operator, self.tenant.as_deref()).await
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct PauseKeyRotation {
    /// Id of one tenant, or its name.
    tenant: Option<String>,
}

impl Action for PauseKeyRotation {
    const SPEC: ActionSpec = ActionSpec::change("keys rotation pause");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        mark(operator, self.tenant.as_deref(), RotationMark::Paused).await
    }
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub struct ResumeKeyRotation {
    /// Id of one tenant, or its name.
    tenant: Option<String>,
}

impl Action for ResumeKeyRotation {
    const SPEC: ActionSpec = ActionSpec::change("keys rotation resume");

    async fn run(&self, operator: &Operator) -> anyhow::Result<CommandOutput> {
        mark(operator, self.tenant.as_deref(), RotationMark::Resumed).await
    }
}

/// The keys of one tenant.
struct TenantStatus<'a> {
    tenant: &'a Arc<Tenant>,
    rotation: Option<&'a KeyRotation>,
    counts: Vec<VersionCount>,
}

impl TenantStatus<'_> {
    fn phase(&self) -> RotationPhase {
        RotationPhase::for_tenant(self.tenant)
    }

    fn is_paused(&self) -> bool {
        self.phase() != RotationPhase::Idle && self.rotation.is_some_and(|it| it.is_paused)
    }

    fn rows_of_version(&self, version: u32) -> u64 {
        let rows = self.counts.iter().filter(|it| it.version == version).map(|it| it.rows);
        rows.fold(0, u64::saturating_add)
    }

    /// The versions with the number of rows of each.
    fn versions(&self) -> Vec<(u32, u64)> {
        let mut versions = self.tenant.keys.versions();
        versions.extend(self.counts.iter().map(|it| it.version));
        versions.sort_unstable();
        versions.dedup();
        versions.into_iter().map(|it| (it, self.rows_of_version(it))).collect()
    }

    fn table_row(&self) -> [String; 6] {
        let state = if self.is_paused() { "paused" } else { self.phase().as_str() };
        let versions = self.versions().into_iter().map(|(it, rows)| format!("{it} ({rows})"));
        let progress = self.rotation.map(|it| &it.progress);
        let table = progress.and_then(|it| it.table).map_or("-", |it| it.as_str());
        [
            self.tenant.id.to_string(),
            state.to_owned(),
            self.tenant.keys.current_version().to_string(),
            versions.collect::<Vec<_>>().join(", "),
            progress.map_or(0, |it| it.resealed).to_string(),
            table.to_owned(),
        ]
    }

    fn json(&self, created_at: String) -> Value {
        let rows: Vec<Value> = self
            .counts
            .iter()
            .map(|it| json!({ "column": it.column, "version": it.version, "rows": it.rows }))
            .collect();
        let rotation = self.rotation.map(|it| {
            json!({
                "to_version": it.to_version,
                "started_at": it.started_at.to_string(),
                "promoted_at": it.promoted_at.map(|at| at.to_string()),
                "finished_at": it.finished_at.map(|at| at.to_string()),
                "paused": it.is_paused,
                "pass": it.progress.pass,
                "table": it.progress.table.map(|table| table.as_str()),
                "rows": it.progress.resealed,
                "unopened_rows": it.progress.unopened,
            })
        });
        json!({
            "tenant_id": self.tenant.id.to_string(),
            "state": if self.is_paused() { "paused" } else { self.phase().as_str() },
            "version": self.tenant.keys.current_version(),
            "versions": self.tenant.keys.versions(),
            "key_created_at": created_at,
            "rotation": rotation,
            "rows": rows,
        })
    }
}

async fn show_status(operator: &Operator, tenant: Option<&str>) -> anyhow::Result<CommandOutput> {
    let rotations = operator.vault.store.list_key_rotations().await.map_err(explain)?;
    let (mut rows, mut tenants) = (Vec::new(), Vec::new());
    for tenant in operator.tenants(tenant)? {
        let counts = count_versions(&operator.vault, tenant).await.map_err(explain)?;
        let rotation = rotations.iter().find(|it| it.tenant == tenant.id);
        let status = TenantStatus { tenant, rotation, counts };
        rows.push(status.table_row());
        tenants.push(status.json(sealing_key_created_at(tenant, &rotations).to_string()));
    }
    let names = ["TENANT", "STATE", "VERSION", "VERSIONS (ROWS)", "ENCRYPTED AGAIN", "TABLE"];
    let mut text = table(names, &rows);
    let phase = describe_audit_key(operator.directory.audit_key().history());
    if let Some((_, line)) = phase {
        text += line;
    }
    text += &operator.alterations.lines();
    let alterations = operator.alterations.descriptions();
    let audit_key = phase.map_or("current", |(name, _)| name);
    let json = json!({ "tenants": tenants, "alterations": alterations, "audit_key": audit_key });
    Ok(CommandOutput::new(text, json))
}

/// How far the change of the audit key is; `None` if it is complete.
fn describe_audit_key(history: KeyHistory) -> Option<(&'static str, &'static str)> {
    match history.phase {
        AuditKeyPhase::Added => Some((
            "added",
            "audit key: a new key was added after a compromise; a running server uses it soon\n",
        )),
        AuditKeyPhase::Active => Some((
            "active",
            "audit key: the new key is used; a running server ends the old one soon\n",
        )),
        AuditKeyPhase::Closed => None,
    }
}

async fn mark(
    operator: &Operator,
    tenant: Option<&str>,
    mark: RotationMark,
) -> anyhow::Result<CommandOutput> {
    let mut marked = Vec::new();
    for it in operator.tenants(tenant)? {
        let outcome = operator.vault.store.mark_key_rotation(it.id, mark).await.map_err(explain)?;
        if outcome == ChangeOutcome::Done {
            marked.push(it.id.to_string());
        }
    }
    let word = if mark == RotationMark::Paused { "paused" } else { "resumed" };
    if marked.is_empty() {
        bail!("no running rotation was {word}; see: scrip keys rotation status");
    }
    let lines: String = marked.iter().map(|it| format!("tenant {it}: rotation {word}\n")).collect();
    Ok(CommandOutput::new(lines, json!({ word: marked })))
}
