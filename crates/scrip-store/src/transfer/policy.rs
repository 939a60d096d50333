//! Reads the policy rows of an export file, to restore the policy of one tenant.

use std::{fs::File, io::BufReader};

use scrip_core::{
    policy::{DirectoryRecords, PolicyAlteration, SystemKeys},
    types::{StoreError, id::TenantId},
    unlock::VaultUnlocks,
};
use scrip_seal::Sealed;

use crate::{
    shared::policy::{
        directory::{
            PolicyRows, decode_api_key, decode_application, decode_client_key, decode_proxy,
            decode_tenant, decode_tenant_key, decode_webhook, decode_wrapped_key,
        },
        unlock_rows::{decode_identity, decode_unlock},
    },
    sql::{ColumnReader, MISSING_COLUMNS, read_required},
    transfer::{
        error::TransferError,
        file::{ExportReader, NextFrame},
        kind::RowKind,
        row::TransferRow,
    },
};

/// The columns in the order in which the rows of the tables are decoded.
const TENANT_COLUMNS: &[&str] = &[
    "id",
    "name",
    "kind",
    "settings",
    "quotas",
    "mac",
    "policy_counter",
    "policy_mac",
    "created_by",
    "created_at",
    "modified_by",
    "modified_at",
    "deletes_at",
    "sealing_version",
];
const APPLICATION_COLUMNS: &[&str] = &[
    "tenant",
    "id",
    "name",
    "kind",
    "access",
    "mac",
    "created_by",
    "created_at",
    "modified_by",
    "modified_at",
    "origins",
];
const API_KEY_COLUMNS: &[&str] =
    &["tenant", "application", "id", "digest", "mac", "created_by", "created_at"];
const PROXY_COLUMNS: &[&str] = &[
    "tenant",
    "id",
    "digest",
    "name",
    "application",
    "require_auth",
    "disable_detokenization",
    "host",
    "settings",
    "secrets",
    "mac",
    "created_by",
    "created_at",
    "modified_by",
    "modified_at",
];
const WEBHOOK_COLUMNS: &[&str] = &[
    "tenant",
    "id",
    "name",
    "status",
    "events",
    "settings",
    "secrets",
    "mac",
    "created_by",
    "created_at",
    "modified_by",
    "modified_at",
];
const CLIENT_KEY_COLUMNS: &[&str] =
    &["tenant", "id", "expires_at", "private_key", "mac", "created_by", "created_at"];
const TENANT_KEY_COLUMNS: &[&str] = &["tenant", "wrapped", "version"];
const PERMANENT_KEY_COLUMNS: &[&str] = &["tenant", "wrapped"];

/// Reads an export file to its end and returns its policy. The MACs are not checked yet.
///
/// # Errors
/// The file cannot be read, or is not an intact export.
pub fn read_policy(file: &File) -> Result<DirectoryRecords, TransferError> {
    let mut reader = ExportReader::open(BufReader::new(file))?;
    let mut collected = CollectedRows::default();
    while let NextFrame::Portion(portion) = reader.next_checked_frame()? {
        for row in portion.page.rows {
            collected.add(portion.kind, &row).map_err(TransferError::Store)?;
        }
    }
    let CollectedRows { rows, mut unreadable, pepper, audit_key, unlocks } = collected;
    let system_keys =
        pepper.zip(audit_key).map(|(pepper, audit_key)| SystemKeys { pepper, audit_key });
    let tenants = rows.into_policies(&mut unreadable);
    Ok(DirectoryRecords { version: 0, system_keys, unlocks, tenants, unreadable })
}

#[derive(Default)]
struct CollectedRows {
    rows: PolicyRows,
    unreadable: Vec<PolicyAlteration>,
    pepper: Option<Sealed>,
    audit_key: Option<Sealed>,
    unlocks: VaultUnlocks,
}

impl CollectedRows {
    /// Adds a row; rows of other kinds are skipped. A row that cannot be decoded is reported.
    fn add(&mut self, kind: RowKind, row: &TransferRow) -> Result<(), StoreError> {
        let (rows, unreadable) = (&mut self.rows, &mut self.unreadable);
        if kind == RowKind::Tenants {
            let row = reorder(kind, row, TENANT_COLUMNS)?;
            add_row(&mut rows.tenants, unreadable, &row, decode_tenant);
        } else if kind == RowKind::Applications {
            let row = reorder(kind, row, APPLICATION_COLUMNS)?;
            add_row(&mut rows.applications, unreadable, &row, decode_application);
        } else if kind == RowKind::ApiKeys {
            let row = reorder(kind, row, API_KEY_COLUMNS)?;
            add_row(&mut rows.api_keys, unreadable, &row, decode_api_key);
        } else if kind == RowKind::Proxies {
            let row = reorder(kind, row, PROXY_COLUMNS)?;
            add_row(&mut rows.proxies, unreadable, &row, decode_proxy);
        } else if kind == RowKind::Webhooks {
            let row = reorder(kind, row, WEBHOOK_COLUMNS)?;
            add_row(&mut rows.webhooks, unreadable, &row, decode_webhook);
        } else if kind == RowKind::ClientKeys {
            let row = reorder(kind, row, CLIENT_KEY_COLUMNS)?;
            add_row(&mut rows.client_keys, unreadable, &row, decode_client_key);
        } else if kind == RowKind::TenantKeys {
            let row = reorder(kind, row, TENANT_KEY_COLUMNS)?;
            add_row(&mut rows.sealing_keys, unreadable, &row, decode_tenant_key);
        } else if kind == RowKind::PermanentKeys {
            let row = reorder(kind, row, PERMANENT_KEY_COLUMNS)?;
            add_row(&mut rows.permanent_keys, unreadable, &row, decode_wrapped_key);
        } else if [RowKind::VaultState, RowKind::Unlocks].contains(&kind) {
            add_unlock_row(&mut self.unlocks, kind, row);
        } else if kind == RowKind::SystemKeys {
            match read_required::<&str>(row, 0)? {
                "pepper" => self.pepper = Some(read_required(row, 1)?),
                "audit" => self.audit_key = Some(read_required(row, 1)?),
                _ => (),
            }
        }
        Ok(())
    }
}

/// Adds a row of the vault's identity or of an unlock method. The columns have the order of the
/// tables' statements.
pub(super) fn add_unlock_row(unlocks: &mut VaultUnlocks, kind: RowKind, row: &TransferRow) {
    if kind == RowKind::VaultState {
        unlocks.identity = decode_identity(row).ok();
        return;
    }
    match decode_unlock(row) {
        Ok(method) => unlocks.methods.push(method),
        Err(_) => unlocks.unreadable = unlocks.unreadable.saturating_add(1),
    }
}

/// Returns the columns of a row in the given order.
fn reorder(kind: RowKind, row: &TransferRow, names: &[&str]) -> Result<TransferRow, StoreError> {
    let value = |name: &&str| {
        let index = kind.columns().iter().position(|it| it.name == *name);
        index.and_then(|it| row.get(it)).cloned().ok_or(MISSING_COLUMNS)
    };
    names.iter().map(value).collect()
}

fn add_row<T>(
    rows: &mut Vec<(TenantId, T)>,
    unreadable: &mut Vec<PolicyAlteration>,
    row: &TransferRow,
    decode: fn(&dyn ColumnReader) -> Result<T, StoreError>,
) {
    let tenant: Option<TenantId> = read_required(row, 0).ok();
    match tenant.zip(decode(row).ok()) {
        Some(decoded) => rows.push(decoded),
        None => {
            let description = "a row of the export cannot be read".to_owned();
            unreadable.push(PolicyAlteration { tenant, description });
        }
    }
}
