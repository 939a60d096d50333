//! Reads the unlock methods of the vault and the state of dual control, and checks which version of the vault key wrapped a key.

use scrip_core::{
    approval::{DualControlRecord, StoredDualControl},
    types::StoreError,
    unlock::{UnlockRecord, VaultIdentity, VaultUnlocks},
};
use scrip_seal::{Sealed, WrappedTenantKeys};

use crate::sql::{ColumnReader, Statements, read_optional, read_required};

const FIND_VAULT_STATE: &str = "
-- find_vault_state
SELECT vault_id, key_version FROM vault_state WHERE singleton = 1";

pub(crate) async fn find_identity(
    client: &impl Statements,
) -> Result<Option<VaultIdentity>, StoreError> {
    client.find(FIND_VAULT_STATE, &[], decode_identity).await
}

pub(crate) fn decode_identity(row: &dyn ColumnReader) -> Result<VaultIdentity, StoreError> {
    Ok(VaultIdentity { id: read_required(row, 0)?, key_version: read_required(row, 1)? })
}

/// Loads the identity of the vault and its unlock methods, oldest first. The statement that lists
/// the methods differs between the engines.
pub(crate) async fn load_unlocks(
    client: &impl Statements,
    list_unlocks: &str,
) -> Result<VaultUnlocks, StoreError> {
    let identity = find_identity(client).await?;
    let decode = |row: &dyn ColumnReader| Ok(decode_unlock(row).ok().filter(has_possible_size));
    let rows = client.query(list_unlocks, &[], decode).await?;
    let mut methods: Vec<_> = rows.iter().flatten().cloned().collect();
    methods.sort_by_key(|it| (it.created_at, it.id));
    methods.truncate(METHODS_MAX);
    let unreadable = rows.len().saturating_sub(methods.len());
    Ok(VaultUnlocks { identity, methods, unreadable })
}

/// More than any vault needs, and few enough for one response of the control socket.
const METHODS_MAX: usize = 32;
const LABEL_BYTES_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 8 * 1024;
/// A wrapped key of a service is some hundred bytes.
const WRAPPED_BYTES_MAX: usize = 16 * 1024;

/// Whether the vault can have written the row.
fn has_possible_size(method: &UnlockRecord) -> bool {
    method.label.len() <= LABEL_BYTES_MAX
        && method.parameters.len() <= PARAMETERS_BYTES_MAX
        && method.wrapped.len() <= WRAPPED_BYTES_MAX
}

pub(crate) fn decode_unlock(row: &dyn ColumnReader) -> Result<UnlockRecord, StoreError> {
    Ok(UnlockRecord {
        id: read_required(row, 0)?,
        wrapped: read_required(row, 1)?,
        kind: read_required(row, 2)?,
        label: read_required(row, 3)?,
        parameters: read_required(row, 4)?,
        key_version: read_required(row, 5)?,
        created_at: read_required(row, 6)?,
        checked_at: read_optional(row, 7)?,
        state: read_required(row, 8)?,
        mac: read_required(row, 9)?,
    })
}

const ROTATED: StoreError = StoreError::Corrupt(
    "the vault key was rotated after this process loaded it; run the command again",
);

/// Fails for a key that another version of the vault key wrapped: nothing could open it. The
/// caller has raised the version of the directory, for which a rotation waits.
pub(crate) async fn check_wrapping_version(
    transaction: &impl Statements,
    wrapped: &Sealed,
) -> Result<(), StoreError> {
    // Altered bytes have no version, and are reported when they are opened.
    let Ok(version) = wrapped.key_version() else { return Ok(()) };
    let identity = find_identity(transaction).await?;
    let unlocks = VaultUnlocks { identity, ..VaultUnlocks::default() };
    if version == unlocks.key_version() { Ok(()) } else { Err(ROTATED) }
}

/// As [`check_wrapping_version`], for the keys of a tenant.
pub(crate) async fn check_tenant_keys(
    transaction: &impl Statements,
    keys: &WrappedTenantKeys,
) -> Result<(), StoreError> {
    for wrapped in keys.sealing.iter().map(|(_, it)| it).chain([&keys.permanent]) {
        check_wrapping_version(transaction, wrapped).await?;
    }
    Ok(())
}

const FIND_DUAL_CONTROL: &str = "
-- find_dual_control
SELECT is_on, sequence, members, changed_at, mac FROM dual_control WHERE singleton = 1";

pub(crate) async fn find_dual_control(
    client: &impl Statements,
) -> Result<StoredDualControl, StoreError> {
    let row = client.find(FIND_DUAL_CONTROL, &[], |row| {
        let record = decode_dual_control(row);
        Ok(record.map_or(StoredDualControl::Unreadable, StoredDualControl::Present))
    });
    Ok(row.await?.unwrap_or_default())
}

fn decode_dual_control(row: &dyn ColumnReader) -> Result<DualControlRecord, StoreError> {
    Ok(DualControlRecord {
        is_on: read_required(row, 0)?,
        sequence: read_required(row, 1)?,
        members: read_required(row, 2)?,
        changed_at: read_required(row, 3)?,
        mac: read_required(row, 4)?,
    })
}
