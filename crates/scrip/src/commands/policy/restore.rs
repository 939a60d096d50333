//! `scrip policy restore`: put the policy of one tenant back from a backup.

mod arguments;
mod deletion;
mod plan;
mod replacement;

use std::{
    io::{Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, bail};
use clap::Subcommand;
use scrip_core::{
    Timestamp,
    operations::tenants::restore_policy::{NewPolicyRestore, restore_policy},
    policy::{Directory, DirectoryRecords, PolicyRecords, Tenant},
    types::id::TenantId,
};
use scrip_operator::{
    action::ActionSpec, error::explain, operator::Operator, output::CommandOutput,
};
use scrip_seal::TenantKeys;
use scrip_server::config::Environment;
use scrip_store::transfer::read_policy;
use serde_json::json;

use crate::commands::{
    local_action::LocalAction,
    policy::restore::{
        arguments::PolicyRestoreArguments,
        plan::{RestorePlan, describe_tenant_alterations},
        replacement::PolicyReplacement,
    },
    progress::{Progress, ProgressUnit},
    transfer::backup::{
        READING, examine_database,
        file::{BackupFile, open_regular_file},
    },
};

const EXAMPLES: &str = "\
Examples:
  scrip policy restore --from /mnt/backup/scrip-monday --tenant 5f0c…
  scrip policy restore --from /mnt/backup/scrip-monday --tenant 5f0c… --yes

Without --yes, the command prints what would change and changes nothing. Tokens are not touched.
Take the newest backup from before the alteration: API keys that were deleted since work again.";

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Put the policy of one tenant (settings, quotas, applications, rules, keys) back from a
    /// backup.
    #[command(after_help = EXAMPLES)]
    Restore(PolicyRestoreArguments),
}

const SPEC: ActionSpec = ActionSpec::approved_change("policy restore");

pub(crate) fn run(command: &PolicyCommand, environment: &Environment) -> anyhow::Result<()> {
    let PolicyCommand::Restore(arguments) = command;
    let common = &arguments.common;
    let settings = common.confined_settings(environment)?;
    let mut action = LocalAction::on_vault(SPEC, &settings);
    // Without the confirmation, the command changes nothing.
    if arguments.yes {
        open_regular_file(&arguments.from)?;
        let parameters = json!({
            "from": arguments.from,
            "tenant": arguments.tenant,
            "ignore_audit_log": arguments.ignore_audit_log,
        });
        action = action.approved(&parameters, common.wait)?;
    }
    common.run_local(&action, async |it| restore(it.operator()?, arguments).await)
}

/// The policy of a tenant in a backup, with valid MACs.
struct BackupPolicy {
    tenant: Arc<Tenant>,
    records: PolicyRecords,
}

async fn restore(
    operator: &Operator,
    arguments: &PolicyRestoreArguments,
) -> anyhow::Result<CommandOutput> {
    let stored = operator.vault.store.load_directory().await.map_err(explain)?;
    let backup = read_backup(&arguments.from)?;
    let BackupPolicy { tenant, records: backup } =
        find_backup_policy(operator, &stored, backup, &arguments.tenant)?;
    let id = tenant.id;
    if !operator.directory.has_row(id) {
        bail!(
            "tenant {id} has no rows in this vault: it was deleted, or all of its rows were \
             removed. Restore the whole vault instead: scrip restore"
        );
    }
    if operator.directory.pending_deletion().iter().any(|it| it.id == id) {
        bail!("tenant {id} is deleted in this vault; run first: scrip tenant restore {id}");
    }
    let replaced = stored.tenants.into_iter().find(|it| it.tenant.record.id == id);
    let replaces_keys = must_replace_keys(operator, id, replaced.as_ref(), &backup)?;
    let replacement = PolicyReplacement {
        tenant: &tenant,
        stored: replaced.as_ref(),
        replaces_keys,
        backup: &backup,
    };
    let deletion = deletion::decide_deletion(operator, &replacement, arguments).await?;
    let plan = RestorePlan::new(operator, &replacement, deletion);
    if !arguments.yes {
        bail!("{}\nnothing was changed. Use --yes to confirm", plan.text("would be restored"));
    }
    let deletes_at = deletion.deletes_at();
    let new = NewPolicyRestore { backup, replaced, replaces_keys, deletes_at };
    let restored = restore_policy(&operator.vault, operator.policy_permit(&tenant), new).await;
    restored.map_err(explain)?;
    // A fresh load: the restored policy must be valid by itself.
    let records = operator.vault.store.load_directory().await.map_err(explain)?;
    let directory = Directory::open(records, &*operator.key_source, None).map_err(explain)?;
    let is_pending = directory.pending_deletion().iter().any(|it| it.id == id);
    if directory.tenant(id).is_none() && !is_pending {
        let alterations = describe_tenant_alterations(&directory, id);
        bail!("the policy of tenant {id} is still altered: {alterations}");
    }
    let text = format!(
        "{}\nA running server uses the restored policy within a second.\n",
        plan.text("was restored")
    );
    Ok(CommandOutput::new(text, plan.json()))
}

/// Rejects a backup from before a rotation of the vault key: its keys open nothing here.
fn check_key_version(
    operator: &Operator,
    stored: &DirectoryRecords,
    backup: &DirectoryRecords,
) -> anyhow::Result<()> {
    let [before, now] = [backup, stored].map(|it| it.unlocks.key_version());
    let id = |it: &DirectoryRecords| it.unlocks.identity.map(|it| it.id);
    if before >= now || (id(backup).is_some() && id(backup) != id(stored)) {
        return Ok(());
    }
    let exposed = operator.directory.audit_key().history().compromised_ms.map(|unix_ms| {
        let time = Timestamp { unix_ms };
        format!(". Backups before {time} are exposed: destroy them")
    });
    bail!(
        "this backup has version {before} of the vault key, and the vault has version {now}; its \
         policy cannot be used{}",
        exposed.unwrap_or_default()
    )
}

/// Finds the tenant in the backup, which must be a backup of this vault with valid rows.
fn find_backup_policy(
    operator: &Operator,
    stored: &DirectoryRecords,
    backup: DirectoryRecords,
    tenant: &str,
) -> anyhow::Result<BackupPolicy> {
    let other_vault = "this is a backup of another vault; nothing was changed";
    check_key_version(operator, stored, &backup)?;
    let policies = backup.tenants.clone();
    // The audit key changes its phase; the pepper changes with the vault key only.
    let pepper = |it: &DirectoryRecords| it.system_keys.as_ref().map(|it| it.pepper.clone());
    let has_same_keys = pepper(&backup).is_some() && pepper(&backup) == pepper(stored);
    let directory = Directory::open(backup, &*operator.key_source, None).map_err(explain);
    let directory = directory.context(other_vault)?;
    if !has_same_keys {
        bail!(other_vault);
    }
    let valid = directory.tenants();
    let id = match TenantId::parse(tenant) {
        Some(id) => id,
        None => {
            let mut named = valid.iter().filter(|it| it.name.as_str() == tenant);
            let first = named.next().context(
                "no tenant of the backup with an unaltered policy has this name; use the id",
            )?;
            if named.next().is_some() {
                bail!("several tenants of the backup have this name; use the id");
            }
            first.id
        }
    };
    if let Some(tenant) = directory.tenant(id) {
        let tenant = Arc::clone(tenant);
        let records = policies.into_iter().find(|it| it.tenant.record.id == id);
        let records = records.context("the backup has no policy of this tenant")?;
        return Ok(BackupPolicy { tenant, records });
    }
    if directory.pending_deletion().iter().any(|it| it.id == id) {
        bail!("tenant {id} is deleted in this backup; use a backup from before its deletion");
    }
    if directory.has_row(id) {
        let alterations = describe_tenant_alterations(&directory, id);
        bail!(
            "the policy of tenant {id} is altered in this backup too: {alterations}. Use an older \
             backup"
        );
    }
    bail!("the backup has no tenant {id}; use a newer backup")
}

/// Whether the wrapped keys of the tenant differ from the backup. Keys that the root key opens
/// belong to the vault: without them, tokens could be lost, so they are never replaced.
fn must_replace_keys(
    operator: &Operator,
    id: TenantId,
    stored: Option<&PolicyRecords>,
    backup: &PolicyRecords,
) -> anyhow::Result<bool> {
    let Some(stored) = stored else { return Ok(false) };
    let (stored_keys, backup_keys) = (&stored.tenant.record.keys, &backup.tenant.record.keys);
    if stored_keys.has_same_keys(backup_keys) {
        return Ok(false);
    }
    if TenantKeys::unwrap(&*operator.key_source, &id.to_string(), stored_keys).is_ok() {
        bail!(
            "the encryption keys of tenant {id} are valid and differ from the backup; with the \
             keys of the backup, tokens could be lost. Use a newer backup"
        );
    }
    Ok(true)
}

/// The start of every SQLite database, and therefore of every backup.
const DATABASE_START: &[u8] = b"SQLite format 3\0";

/// Reads all policies of the file. Their MACs are not checked yet.
fn read_backup(path: &Path) -> anyhow::Result<DirectoryRecords> {
    let name = path.display();
    let unreadable = || format!("{name} cannot be read");
    let mut file = open_regular_file(path)?;
    let mut start = Vec::new();
    let start_length = u64::try_from(DATABASE_START.len())?;
    file.by_ref().take(start_length).read_to_end(&mut start).with_context(unreadable)?;
    if start != DATABASE_START {
        file.seek(SeekFrom::Start(0)).with_context(unreadable)?;
        let records = read_policy(&file);
        return records.with_context(|| format!("{name} is not a usable backup or export"));
    }
    BackupFile::open(path)?.check(&mut Progress::of_report("checksum", ProgressUnit::Bytes))?;
    let examined = examine_database(path, Progress::of_report(READING, ProgressUnit::Bytes))?;
    if !examined.is_current {
        bail!(
            "{name} has the schema of an older version. Restore it into an empty directory with \
             this version, and back that directory up"
        );
    }
    Ok(examined.directory)
}
