//! The deletion of the tenant, which a restoration must not undo.

use std::time::Duration;

use anyhow::bail;
use scrip_core::{
    Timestamp,
    audit::LogKind,
    operations::tenants::recorded_deletion::{RecordedDeletion, find_recorded_deletion},
    policy::{PolicyRecords, SignedRow, TenantRecord},
    types::id::TenantId,
};
use scrip_operator::{error::explain, operator::Operator};
use scrip_server::files::head_file;
use serde_json::{Value, json};

use crate::commands::policy::restore::{
    arguments::PolicyRestoreArguments, replacement::PolicyReplacement,
};

/// The minimum grace period that starts again, so that the operator can still undo the deletion.
const GRACE_MIN: Duration = Duration::from_secs(24 * 60 * 60);

/// What happens to the deletion of the tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptDeletion {
    /// No deletion was requested since the backup, or it was undone.
    None,
    /// The deletion stays, and the keys are destroyed at this time.
    Kept(Timestamp),
    /// The audit log is altered, and the operator ignores it.
    Unknown,
}

impl KeptDeletion {
    pub(super) fn deletes_at(self) -> Option<Timestamp> {
        match self {
            Self::Kept(deletes_at) => Some(deletes_at),
            Self::None | Self::Unknown => None,
        }
    }

    pub(super) fn text(self, tenant: TenantId) -> String {
        match self {
            Self::None => {
                "  deletion: no deletion was requested after the backup, or it was undone\n"
                    .to_owned()
            }
            Self::Kept(deletes_at) => format!(
                "  deletion: the tenant was deleted after the backup, and the deletion stays: its \
                 keys are destroyed at {deletes_at}. To undo it afterwards run: scrip tenant \
                 restore {tenant}\n"
            ),
            Self::Unknown => "warning: the audit log cannot show whether the tenant was deleted \
                              after the backup; the restored tenant is not deleted\n"
                .to_owned(),
        }
    }

    pub(super) fn json(self) -> Value {
        let deletes_at = self.deletes_at().map(|it| it.to_string());
        json!({ "stays": deletes_at.is_some(), "keys_destroyed_at": deletes_at })
    }
}

/// Decides from signed rows whether the tenant was deleted after the backup.
/// Errors: the keys of the tenant were destroyed on purpose, or the audit log cannot show it.
pub(super) async fn decide_deletion(
    operator: &Operator,
    replacement: &PolicyReplacement<'_>,
    arguments: &PolicyRestoreArguments,
) -> anyhow::Result<KeptDeletion> {
    let PolicyReplacement { tenant, stored, replaces_keys, backup } = *replacement;
    let id = tenant.id;
    let recorded = find_recorded_deletion(&operator.vault, id, backup.seal.counter).await;
    let recorded = recorded.map_err(explain)?;
    let has_keys = stored.is_some() && !replaces_keys;
    let is_authentic = |it: &&SignedRow<TenantRecord>| has_keys && it.has_valid_mac(&tenant.keys);
    let authentic_row = stored.map(|it: &PolicyRecords| &it.tenant).filter(is_authentic);
    let stored_time = authentic_row.and_then(|it| it.record.deletes_at);
    match recorded {
        RecordedDeletion::Completed => bail!(refusal(id)),
        RecordedDeletion::Requested(_) if !has_keys => bail!(refusal(id)),
        RecordedDeletion::Requested(_) => {
            let grace = tenant.quotas.deletion_grace().max(GRACE_MIN);
            let later_time = operator.vault.clock.now().plus(grace);
            return Ok(KeptDeletion::Kept(stored_time.unwrap_or(later_time)));
        }
        RecordedDeletion::None | RecordedDeletion::Unknown => (),
    }
    if arguments.ignore_audit_log {
        let is_unknown = recorded == RecordedDeletion::Unknown;
        return Ok(if is_unknown { KeptDeletion::Unknown } else { KeptDeletion::None });
    }
    let is_continued =
        head_file::is_chain_continued(&operator.head_file, &operator.vault, LogKind::Audit, id);
    let problem = match is_continued.await? {
        false => "was rolled back or altered",
        true if recorded == RecordedDeletion::Unknown => "is missing or altered",
        true => return Ok(KeptDeletion::None),
    };
    // The row itself has the answer if the vault wrote it.
    match (authentic_row, stored_time) {
        (Some(_), Some(deletes_at)) => Ok(KeptDeletion::Kept(deletes_at)),
        (Some(_), None) => Ok(KeptDeletion::None),
        (None, _) => bail!(
            "the audit log of tenant {id} {problem}, so it cannot show whether the tenant was \
             deleted on purpose. Run: scrip audit verify. If you know that the tenant was not \
             deleted, use --ignore-audit-log; nothing was changed"
        ),
    }
}

fn refusal(id: TenantId) -> String {
    format!(
        "tenant {id} was deleted on purpose, and its policy and keys must not come back. Its rows \
         in this vault are leftovers; to delete them run: scrip tenant delete {id} --yes; nothing \
         was changed"
    )
}
