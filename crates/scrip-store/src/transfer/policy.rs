//! Reads the policy rows of an export file, to restore the policy of one tenant.

use std::{fs::File, io::BufReader};

use scrip_core::{
    policy::{DirectoryRecords, POLICY_ENTITIES, PolicyAlteration, PolicyEntity, SystemKeys},
    types::{StoreError, id::TenantId},
    unlock::VaultUnlocks,
};
use scrip_seal::Sealed;

use crate::{
    shared::policy::{
        directory::{
            PolicyRows, decode_permanent_key, decode_row, decode_tenant, decode_tenant_key,
        },
        unlock_rows::{decode_identity, decode_unlock},
    },
    sql::{ColumnReader, read_required},
    transfer::{
        error::TransferError,
        file::{ExportReader, NextFrame},
        kind::RowKind,
        row::TransferRow,
    },
};

/// Reads an export file to its end and returns its policy. The MACs are not checked yet.
/// Errors: the file cannot be read, or is not an intact export.
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
        let entity = POLICY_ENTITIES.iter().find(|it| kind.entity() == Some(it.entity));
        if let Some(PolicyEntity { read, .. }) = entity {
            add_row(&mut rows.rows, unreadable, row, |it| decode_row(it, *read));
        } else if kind == RowKind::Tenants {
            add_row(&mut rows.tenants, unreadable, row, decode_tenant);
        } else if kind == RowKind::TenantKeys {
            add_row(&mut rows.sealing_keys, unreadable, row, decode_tenant_key);
        } else if kind == RowKind::PermanentKeys {
            add_row(&mut rows.permanent_keys, unreadable, row, decode_permanent_key);
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

fn add_row<T>(
    rows: &mut Vec<(TenantId, T)>,
    unreadable: &mut Vec<PolicyAlteration>,
    row: &TransferRow,
    decode: impl Fn(&dyn ColumnReader) -> Result<T, StoreError>,
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
