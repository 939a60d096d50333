//! The changes of a restoration, for the operator to confirm.

use std::collections::BTreeMap;

use scrip_core::{
    id::{ApiKeyId, ApplicationId, TenantId},
    policy::{ApiKeyRecord, Directory, PolicyRecords, PolicyRow, SignedRow, Tenant},
};
use scrip_seal::TenantKeys;
use serde_json::{Value, json};

use crate::commands::Operator;

/// What happens to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowChange {
    /// The backup has the row, the vault does not.
    ComesBack,
    /// The vault has the row, the backup does not.
    GoesAway,
    /// Both have the row, with different content.
    Changes,
}

impl RowChange {
    fn name(self) -> &'static str {
        match self {
            Self::ComesBack => "comes back",
            Self::GoesAway => "goes away",
            Self::Changes => "changes",
        }
    }
}

/// A changed row and its description.
struct ChangedRow {
    change: RowChange,
    kind: &'static str,
    id: String,
    description: String,
}

pub(super) struct RestorePlan {
    tenant: TenantId,
    tenant_name: String,
    alterations: String,
    rows: Vec<ChangedRow>,
}

/// Returns the alterations of one tenant in one line.
pub(super) fn describe_tenant_alterations(directory: &Directory, id: TenantId) -> String {
    let alterations = directory.alterations().iter().filter(|it| it.tenant == Some(id));
    alterations.map(|it| it.description.as_str()).collect::<Vec<_>>().join("; ")
}

impl RestorePlan {
    pub(super) fn new(
        operator: &Operator,
        tenant: &Tenant,
        stored: Option<&PolicyRecords>,
        backup: &PolicyRecords,
    ) -> Self {
        let mut rows = Vec::new();
        if stored.is_none_or(|it| it.tenant != backup.tenant) {
            rows.push(ChangedRow {
                change: RowChange::Changes,
                kind: "tenant",
                id: tenant.id.to_string(),
                description: "name, settings, quotas or keys".to_owned(),
            });
        }
        rows.extend(application_changes(&tenant.keys, stored, backup));
        rows.extend(key_changes(&tenant.keys, stored, backup));
        Self {
            tenant: tenant.id,
            tenant_name: tenant.name.as_str().to_owned(),
            alterations: describe_tenant_alterations(&operator.directory, tenant.id),
            rows,
        }
    }

    /// Describes the changes; the verb says whether they are done.
    pub(super) fn text(&self, verb: &str) -> String {
        let mut text =
            format!("the policy of tenant {} ({}) {verb}", self.tenant, self.tenant_name);
        text += &match self.alterations.is_empty() {
            true => " although this command finds no alteration:\n".to_owned(),
            false => format!(", because: {}\n", self.alterations),
        };
        for ChangedRow { change, kind, id, description } in &self.rows {
            text += &format!("  {}: {kind} {id} ({description})\n", change.name());
        }
        if self.rows.is_empty() {
            text += "  all rows equal the backup; only the MAC over the whole policy is new\n";
        }
        let returning_keys = self.rows.iter().filter(|it| it.kind == "key");
        if returning_keys.filter(|it| it.change == RowChange::ComesBack).count() > 0 {
            text += "warning: keys that come back work again, also those that were deleted on \
                     purpose after the backup, and so do access sessions that they authorized; \
                     delete them again with: scrip key delete KEY_ID\n";
        }
        let applications = self.rows.iter().filter(|it| it.kind == "application");
        if applications.filter(|it| it.change == RowChange::Changes).count() > 0 {
            text += "warning: applications that change get the permissions and rules of the \
                     backup, which may allow more than those of today\n";
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let to_json = |it: &ChangedRow| {
            json!({
                "change": it.change.name(), "kind": it.kind, "id": it.id,
                "description": it.description,
            })
        };
        let changes: Vec<_> = self.rows.iter().map(to_json).collect();
        json!({ "tenant_id": self.tenant.to_string(), "restored": true, "changes": changes })
    }
}

/// Who wrote a stored row that the backup does not have. The content of a forged row is not shown.
fn author<T: PolicyRow>(row: &SignedRow<T>, keys: &TenantKeys) -> &'static str {
    match row.has_valid_mac(keys) {
        true => "written by the vault after the backup",
        false => "not written by the vault",
    }
}

fn application_changes(
    keys: &TenantKeys,
    stored: Option<&PolicyRecords>,
    backup: &PolicyRecords,
) -> Vec<ChangedRow> {
    let stored_rows: BTreeMap<ApplicationId, _> =
        stored.iter().flat_map(|it| &it.applications).map(|it| (it.record.id, it)).collect();
    let backup_rows: BTreeMap<ApplicationId, _> =
        backup.applications.iter().map(|it| (it.record.id, it)).collect();
    let changed = backup_rows.iter().filter_map(|(id, row)| {
        let change = match stored_rows.get(id) {
            None => RowChange::ComesBack,
            Some(stored_row) if stored_row == row => return None,
            Some(_) => RowChange::Changes,
        };
        let record = &row.record;
        let description = format!("{}, {}", record.name.as_str(), record.kind.as_str());
        Some(ChangedRow { change, kind: "application", id: id.to_string(), description })
    });
    let removed = stored_rows.iter().filter(|(id, _)| !backup_rows.contains_key(id));
    let removed = removed.map(|(id, row)| ChangedRow {
        change: RowChange::GoesAway,
        kind: "application",
        id: id.to_string(),
        description: author(row, keys).to_owned(),
    });
    changed.chain(removed).collect()
}

fn key_changes(
    keys: &TenantKeys,
    stored: Option<&PolicyRecords>,
    backup: &PolicyRecords,
) -> Vec<ChangedRow> {
    let stored_rows: BTreeMap<ApiKeyId, _> =
        stored.iter().flat_map(|it| &it.api_keys).map(|it| (it.record.id, it)).collect();
    let backup_rows: BTreeMap<ApiKeyId, _> =
        backup.api_keys.iter().map(|it| (it.record.id, it)).collect();
    let describe =
        |it: &ApiKeyRecord| format!("application {}, created {}", it.application, it.created.at);
    let changed = backup_rows.iter().filter_map(|(id, row)| {
        let change = match stored_rows.get(id) {
            None => RowChange::ComesBack,
            Some(stored_row) if stored_row == row => return None,
            Some(_) => RowChange::Changes,
        };
        let description = describe(&row.record);
        Some(ChangedRow { change, kind: "key", id: id.to_string(), description })
    });
    let removed = stored_rows.iter().filter(|(id, _)| !backup_rows.contains_key(id));
    let removed = removed.map(|(id, row)| ChangedRow {
        change: RowChange::GoesAway,
        kind: "key",
        id: id.to_string(),
        description: author(row, keys).to_owned(),
    });
    changed.chain(removed).collect()
}
