//! Steps of policy changes. Each change increments the version that other nodes and processes poll.
//! The engine rolls back a change that returns an error or that finds no row to change.

use scrip_core::{
    audit::AuditRecord,
    policy::{PolicySeal, SignedRow, StoredRow, SystemKeys, TenantRecord},
    types::{StoreError, id::TenantId},
};
use scrip_seal::{Sealed, WrappedTenantKeys};

use crate::{
    shared::policy::{
        directory::{KeyTables, NO_VERSION, find_webhook_signing_key},
        statements::put_row,
        unlock_rows::{check_tenant_keys, check_wrapping_version},
    },
    sql::{Execute, WriteTransaction, parameters},
    tables::{TenantRows, tables_with},
};

/// A request that began before the deletion of its tenant may write rows for this long after it.
pub(crate) const LATE_WRITES_MS: i64 = 60_000;

/// Steps of a policy change that differ between the engines.
pub(crate) trait PolicyTransaction: WriteTransaction {
    const KEYS: KeyTables;

    /// Stores keys that are not stored yet. An existing key is not written again, so that only one
    /// copy exists.
    async fn put_keys(&self, tenant: TenantId, keys: &WrappedTenantKeys) -> Result<(), StoreError>;

    /// Destroys versions of a sealing key; overwrites them, if the engine can.
    async fn delete_sealing_keys(
        &self,
        tenant: TenantId,
        versions: &[u32],
    ) -> Result<(), StoreError>;

    /// Prepares statements that replace or delete wrapped keys of any tenant: SQLite overwrites
    /// the old bytes, and PostgreSQL admits the rows of all tenants.
    async fn begin_key_overwrite(&self) -> Result<(), StoreError>;

    async fn end_key_overwrite(&self) -> Result<(), StoreError>;

    /// Notifies other nodes of the new version, if the engine supports that.
    async fn notify_version_changed(&self) -> Result<(), StoreError>;

    /// Whether another row of any tenant has a value of this row that must be unique, such as the
    /// digest of a key or the host of a proxy.
    async fn is_taken(&self, row: &dyn StoredRow) -> Result<bool, StoreError>;

    /// Deletes a tenant's row with its keys and policy. Returns the number of deleted rows.
    async fn delete_tenant_row(&self, tenant: TenantId) -> Result<usize, StoreError>;

    /// Appends the tenant's final record, sets the retention of its chain, and stops counting its
    /// tokens.
    fn record_tenant_end(&mut self, tenant: TenantId, audit: &AuditRecord, retention: Option<i64>);
}

const INSERT_SYSTEM_KEYS: &str = "
-- insert_system_keys
INSERT INTO system_keys (name, wrapped) VALUES ('pepper', $1), ('audit', $2)";

pub(crate) async fn insert_system_keys(
    client: &impl Execute,
    keys: &SystemKeys,
) -> Result<(), StoreError> {
    let row = parameters![&keys.pepper, &keys.audit_key];
    client.execute(INSERT_SYSTEM_KEYS, &row).await.map(drop)
}

const RAISE_VERSION: &str = "
-- raise_version
UPDATE directory_state SET version = version + 1";

/// Increments the version. Policy changes wait for each other at this row, so that uniqueness
/// checks across tenants are safe.
pub(crate) async fn raise_version<T: PolicyTransaction>(transaction: &T) -> Result<(), StoreError> {
    match transaction.execute(RAISE_VERSION, &[]).await? {
        1 => transaction.notify_version_changed().await,
        _ => Err(NO_VERSION),
    }
}

/// Another node may have made a key first.
const INSERT_WEBHOOK_SIGNING_KEY: &str = "
-- insert_webhook_signing_key
INSERT INTO system_keys (name, wrapped) VALUES ('webhook_signing', $1) ON CONFLICT (name) DO NOTHING";

pub(crate) async fn insert_webhook_signing_key<T: PolicyTransaction>(
    transaction: &T,
    wrapped: &Sealed,
) -> Result<Sealed, StoreError> {
    // A rotation of the vault key waits for this row, or this insertion waits for the rotation.
    raise_version(transaction).await?;
    check_wrapping_version(transaction, wrapped).await?;
    transaction.execute(INSERT_WEBHOOK_SIGNING_KEY, &parameters![wrapped]).await?;
    let missing_key = StoreError::Corrupt("the key that signs deliveries is missing");
    find_webhook_signing_key(transaction).await?.ok_or(missing_key)
}

/// Deletes one version of a sealing key.
pub(crate) const DELETE_SEALING_KEY: &str = "
-- delete_sealing_key
DELETE FROM tenant_keys WHERE tenant = $1 AND version = $2";

/// Writes the row of a tenant and its keys. The MAC over the whole policy is written afterwards, by
/// [`put_seal`].
pub(crate) async fn put_tenant<T: PolicyTransaction>(
    transaction: &T,
    tenant: &SignedRow<TenantRecord>,
) -> Result<(), StoreError> {
    put_row(transaction, tenant).await?;
    let TenantRecord { id, keys, .. } = &tenant.record;
    check_tenant_keys(transaction, keys).await?;
    transaction.put_keys(*id, keys).await
}

const PUT_SEAL: &str = "
-- put_seal
UPDATE tenants SET policy_counter = $1, policy_mac = $2 WHERE id = $3";

pub(crate) async fn put_seal(
    transaction: &impl Execute,
    tenant: TenantId,
    seal: PolicySeal,
) -> Result<(), StoreError> {
    let row = parameters![seal.counter, &seal.mac, tenant];
    transaction.execute(PUT_SEAL, &row).await.map(drop)
}

pub(crate) fn delete_usage_statements() -> impl Iterator<Item = String> {
    let delete = |it| format!("-- delete_{it}\nDELETE FROM {it} WHERE tenant = $1");
    tables_with(TenantRows::Deleted).map(delete)
}
