//! Checks of altered policies and of deleted tenants.

use scrip_core::{
    Vault, operations::tenants::purge_tenants::find_forged_deletions, policy::Directory,
    types::id::TenantId,
};
use scrip_server::operator_error::explain;

use crate::commands::{
    alterations::AlteredPolicies,
    doctor::finding::{Finding, failed, warning},
};

/// Reports altered policy rows.
pub(super) async fn check_alterations(vault: &Vault, directory: &Directory) -> Vec<Finding> {
    match AlteredPolicies::load(vault, directory).await {
        Err(error) => vec![failed("policy", format!("{error:#}"))],
        Ok(altered) => {
            let rows = altered.rows().iter();
            rows.map(|it| failed("policy", format!("{}. {}", it.text, it.advice))).collect()
        }
    }
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
