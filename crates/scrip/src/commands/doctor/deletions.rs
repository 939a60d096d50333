//! Checks of altered policies and of deleted tenants.

use scrip_core::{
    Vault,
    id::TenantId,
    operations::tenants::{
        purge_tenants::find_forged_deletions, recorded_deletion::list_completed_deletions,
    },
    policy::{Directory, PolicyAlteration},
};
use scrip_server::storage::explain;

use crate::commands::{
    REPAIR_HINT,
    doctor::{Finding, failed, warning},
};

/// Reports altered policy rows. A restoration would bring a deleted tenant back, so its rows are
/// reported as leftovers.
pub(super) async fn check_alterations(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    if directory.alterations().is_empty() {
        return Vec::new();
    }
    let deleted = match list_completed_deletions(vault, directory.audit_key()).await {
        Ok(deleted) => deleted,
        Err(error) => return vec![failed("policy", format!("{:#}", explain(error)))],
    };
    let to_finding = |it: &PolicyAlteration| {
        let tenant = it.tenant.map(|it| format!("tenant {it}: ")).unwrap_or_default();
        let hint = match it.tenant.filter(|it| deleted.contains(it)) {
            Some(id) => format!(
                "The tenant was deleted on purpose, and another program added these leftovers; to \
                 delete them run: scrip tenant delete {id} --yes"
            ),
            None => REPAIR_HINT.to_owned(),
        };
        failed("policy", format!("{tenant}{}. {hint}", it.description))
    };
    directory.alterations().iter().map(to_finding).collect()
}

/// Reports deleted tenants, and forged rows of deletions.
pub(super) async fn check_deletions(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    let forged = match find_forged_deletions(vault).await {
        Ok(forged) => forged,
        Err(error) => return vec![failed("deletions", format!("{:#}", explain(error)))],
    };
    let to_finding = |it: TenantId| {
        let message =
            "a row of deleted_tenants was added or altered outside the vault; nothing is purged";
        failed("deletions", format!("tenant {it}: {message}. Delete the row"))
    };
    let mut findings: Vec<_> = forged.into_iter().map(to_finding).collect();
    findings.extend(directory.pending_deletion().iter().filter_map(|it| {
        let deletes_at = it.deletes_at?;
        let message =
            format!("tenant {} is deleted; its keys will be destroyed at {deletes_at}", it.id);
        Some(warning(
            "deletions",
            format!("{message}; to undo the deletion run: scrip tenant restore {}", it.id),
        ))
    }));
    findings
}
