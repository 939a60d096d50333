//! The changes of a restoration, for the operator to confirm.

use std::collections::{BTreeMap, BTreeSet};

use scrip_core::{
    policy::{
        Directory, POLICY_ENTITIES, PolicyEntity, PolicyRecords, StoredRow,
        application::API_KEY,
        entity::{Entity, RestoreEffect, RestoreWarning},
    },
    types::id::TenantId,
};
use scrip_operator::operator::Operator;
use scrip_seal::TenantKeys;
use serde_json::{Value, json};

use crate::commands::policy::restore::{deletion::KeptDeletion, replacement::PolicyReplacement};

fn change_name(change: RestoreEffect) -> &'static str {
    match change {
        RestoreEffect::ComesBack => "comes back",
        RestoreEffect::GoesAway => "goes away",
        RestoreEffect::Changes => "changes",
    }
}

/// A changed row and its description.
struct ChangedRow {
    change: RestoreEffect,
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

/// The kind of a row, in the output. The commands for API keys call them keys.
fn row_kind(entity: &Entity) -> &'static str {
    if *entity == API_KEY { "key" } else { entity.kind }
}

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
                change: RestoreEffect::Changes,
                kind: "tenant",
                id: tenant.id.to_string(),
                description: "name, settings, quotas or keys".to_owned(),
            });
        }
        for PolicyEntity { entity, .. } in &POLICY_ENTITIES {
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
            text += &format!("  {}: {kind} {id} ({description})\n", change_name(*change));
        }
        if self.rows.is_empty() {
            text += "  all rows equal the backup; only the MAC over the whole policy is new\n";
        }
        text += &self.deletion.text(self.tenant);
        for PolicyEntity { entity, .. } in &POLICY_ENTITIES {
            let Some(RestoreWarning { changes, text: warning }) = entity.restore_warning else {
                continue;
            };
            let is_reason =
                |it: &ChangedRow| it.kind == row_kind(entity) && changes.contains(&it.change);
            if self.rows.iter().any(is_reason) {
                text += &format!("warning: {warning}\n");
            }
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let to_json = |it: &ChangedRow| {
            json!({
                "change": change_name(it.change), "kind": it.kind, "id": it.id,
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

/// Compares the stored rows of one entity with those of the backup.
fn row_changes(
    entity: &'static Entity,
    keys: &TenantKeys,
    stored: Option<&PolicyRecords>,
    backup: &PolicyRecords,
) -> Vec<ChangedRow> {
    let kind = row_kind(entity);
    let changed_row = |change, row: &dyn StoredRow, description| ChangedRow {
        change,
        kind,
        id: row.id_text(),
        description,
    };
    let is_of_entity = |it: &&dyn StoredRow| it.entity() == entity;
    let stored: Vec<_> =
        stored.into_iter().flat_map(PolicyRecords::rows).filter(is_of_entity).collect();
    let stored_rows: BTreeMap<_, _> = stored.iter().map(|it| (it.id_text(), it)).collect();
    let backup: Vec<_> = backup.rows().filter(is_of_entity).collect();
    let changed = backup.iter().filter_map(|row| {
        let change = match stored_rows.get(&row.id_text()) {
            None => RestoreEffect::ComesBack,
            Some(stored_row) if stored_row.values() == row.values() => return None,
            Some(_) => RestoreEffect::Changes,
        };
        Some(changed_row(change, *row, row.description()))
    });
    let backup_ids: BTreeSet<_> = backup.iter().map(|it| it.id_text()).collect();
    let removed = stored.iter().filter(|it| !backup_ids.contains(&it.id_text()));
    let removed = removed.map(|it| changed_row(RestoreEffect::GoesAway, *it, author(*it, keys)));
    changed.chain(removed).collect()
}
