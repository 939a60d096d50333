//! The changes of a restoration, for the operator to confirm.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    policy::{
        Directory, EntityRow, POLICY_ENTITIES, PolicyEntity, PolicyRecords, StoredRow,
        application::API_KEY, tenant::client_key::CLIENT_KEY,
    },
    types::id::TenantId,
};
use scrip_operator::operator::Operator;
use scrip_seal::TenantKeys;
use serde_json::{Value, json};

use crate::commands::policy::restore::{deletion::KeptDeletion, replacement::PolicyReplacement};

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
    deletion: KeptDeletion,
}

/// Returns the alterations of one tenant in one line.
pub(super) fn describe_tenant_alterations(directory: &Directory, id: TenantId) -> String {
    let alterations = directory.alterations().iter().filter(|it| it.tenant == Some(id));
    alterations.map(|it| it.description.as_str()).collect::<Vec<_>>().join("; ")
}

/// The kind of an API key, in the output.
const KEY: &str = "key";

impl RestorePlan {
    pub(super) fn new(
        operator: &Operator,
        replacement: &PolicyReplacement<'_>,
        deletion: KeptDeletion,
    ) -> Self {
        let PolicyReplacement { tenant, stored, backup, .. } = replacement;
        let mut rows = Vec::new();
        if stored.is_none_or(|it| it.tenant != backup.tenant) {
            rows.push(ChangedRow {
                change: RowChange::Changes,
                kind: "tenant",
                id: tenant.id.to_string(),
                description: "name, settings, quotas or keys".to_owned(),
            });
        }
        for entity in &POLICY_ENTITIES {
            rows.extend(row_changes(entity, &tenant.keys, *stored, backup));
        }
        Self {
            tenant: tenant.id,
            tenant_name: tenant.name.as_str().to_owned(),
            alterations: describe_tenant_alterations(&operator.directory, tenant.id),
            rows,
            deletion,
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
        text += &self.deletion.text(self.tenant);
        let returning_keys = self.rows.iter().filter(|it| it.kind == KEY);
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
        if self.rows.iter().any(|it| it.kind == "proxy" && it.change != RowChange::GoesAway) {
            text += "warning: proxies that come back or change send data to the destinations of \
                     the backup\n";
        }
        if self.rows.iter().any(|it| it.kind == "webhook" && it.change != RowChange::GoesAway) {
            text += "warning: webhooks that come back or change send events to the URLs of the \
                     backup, signed with the secrets of the backup\n";
        }
        let is_client_key = |it: &&ChangedRow| it.kind == CLIENT_KEY.kind;
        if self.rows.iter().filter(is_client_key).any(|it| it.change == RowChange::ComesBack) {
            text += "warning: client encryption keys that come back can decrypt again what was \
                     encrypted for them, also those that were deleted on purpose\n";
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
        json!({
            "tenant_id": self.tenant.to_string(),
            "restored": true,
            "changes": changes,
            "deletion": self.deletion.json(),
        })
    }
}

/// Who wrote a stored row that the backup does not have. The content of a forged row is not shown.
fn author(row: &dyn StoredRow, keys: &TenantKeys) -> String {
    match row.has_valid_mac(keys) {
        true => "written by the vault after the backup".to_owned(),
        false => "not written by the vault".to_owned(),
    }
}

fn describe(row: &EntityRow) -> String {
    match row {
        EntityRow::Tenant(row) => row.record.name.as_str().to_owned(),
        EntityRow::Application(row) => {
            format!("{}, {}", row.record.name.as_str(), row.record.kind.as_str())
        }
        EntityRow::ApiKey(row) => {
            format!("application {}, created {}", row.record.application, row.record.created.at)
        }
        EntityRow::Proxy(row) => row.record.name.as_str().to_owned(),
        EntityRow::Webhook(row) => row.record.name.as_str().to_owned(),
        EntityRow::ClientKey(row) => format!("expires {}", row.record.expires_at),
    }
}

/// Compares the stored rows of one entity with those of the backup.
fn row_changes(
    PolicyEntity { entity, read }: &PolicyEntity,
    keys: &TenantKeys,
    stored: Option<&PolicyRecords>,
    backup: &PolicyRecords,
) -> Vec<ChangedRow> {
    let kind = if *entity == &API_KEY { KEY } else { entity.kind };
    let changed_row = |change, row: &dyn StoredRow, description| ChangedRow {
        change,
        kind,
        id: row.id_text(),
        description,
    };
    let is_of_entity = |it: &&dyn StoredRow| it.entity() == *entity;
    let stored: Vec<_> =
        stored.into_iter().flat_map(PolicyRecords::rows).filter(is_of_entity).collect();
    let stored_rows: BTreeMap<_, _> = stored.iter().map(|it| (it.id_text(), it)).collect();
    let backup: Vec<_> = backup.rows().filter(is_of_entity).collect();
    let changed = backup.iter().filter_map(|row| {
        let change = match stored_rows.get(&row.id_text()) {
            None => RowChange::ComesBack,
            Some(stored_row) if stored_row.values() == row.values() => return None,
            Some(_) => RowChange::Changes,
        };
        let description = read(&row.values()).as_ref().map_or_else(ToString::to_string, describe);
        Some(changed_row(change, *row, description))
    });
    let backup_ids: BTreeSet<_> = backup.iter().map(|it| it.id_text()).collect();
    let removed = stored.iter().filter(|it| !backup_ids.contains(&it.id_text()));
    let removed = removed.map(|it| changed_row(RowChange::GoesAway, *it, author(*it, keys)));
    changed.chain(removed).collect()
}
