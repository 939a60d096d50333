//! Policy changes. Each change increments the version that other nodes and processes poll. The
//! engine rolls back a change that returns an error or that finds no row to change.

use scrip_core::{
    Error,
    audit::AuditRecord,
    change::{ChangeOutcome, PolicyEdit},
    policy::{
        EntityRow, PolicyRecords, PolicySeal, PolicyWrite, SignedRow, StoredRow, SystemKeys,
        TenantDeletion, TenantRecord,
    },
    types::{StoreError, id::TenantId},
};
use scrip_seal::WrappedTenantKeys;

use crate::{
    shared::{
        idempotency::insert_commit_extras,
        policy::{
            directory::{KeyTables, NO_VERSION, load_policy},
            statements::{put_row, statements},
            unlock_rows::check_tenant_keys,
        },
    },
    sql::{ColumnReader, Execute, WriteTransaction, parameters, read_required},
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
pub(super) async fn raise_version<T: PolicyTransaction>(transaction: &T) -> Result<(), StoreError> {
    match transaction.execute(RAISE_VERSION, &[]).await? {
        1 => transaction.notify_version_changed().await,
        _ => Err(NO_VERSION),
    }
}

pub(crate) async fn insert_tenant<T: PolicyTransaction>(
    transaction: &mut T,
    records: &PolicyRecords,
    audit: &AuditRecord,
) -> Result<(), StoreError> {
    let id = records.tenant.record.id;
    raise_version(transaction).await?;
    put_tenant(transaction, &records.tenant).await?;
    put_seal(transaction, id, records.seal).await?;
    transaction.append_audit_record(id, audit, &id.to_string(), "done").await
}

/// Loads the current policy, or returns the reason why it cannot be changed.
async fn load_policy_or_error<T: PolicyTransaction>(
    transaction: &T,
    tenant: TenantId,
) -> Result<Result<Option<PolicyRecords>, Error>, StoreError> {
    match load_policy(transaction, &T::KEYS, tenant).await {
        Ok(records) => Ok(Ok(records)),
        Err(StoreError::Corrupt(reason)) => Ok(Err(Error::Unavailable(reason.into()))),
        Err(
            error @ (StoreError::Busy | StoreError::AlreadyCompleted | StoreError::Unavailable(_)),
        ) => Err(error),
    }
}

const FIND_SEAL: &str = "
-- find_seal
SELECT policy_counter, policy_mac FROM tenants WHERE id = $1";

/// Writes a change if the policy still has the seal on which the change was decided. A policy whose
/// rows were altered after that keeps an invalid MAC, because only the decided rows were sealed.
pub(crate) async fn change_policy<T: PolicyTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    edit: PolicyEdit,
) -> Result<Result<ChangeOutcome, Error>, StoreError> {
    let PolicyEdit { base, writes, seal, extras, destroyed_versions } = edit;
    let decode = |row: &dyn ColumnReader| {
        Ok(PolicySeal { counter: read_required(row, 0)?, mac: read_required(row, 1)? })
    };
    match transaction.find(FIND_SEAL, &parameters![tenant], decode).await? {
        None => return Ok(Err(Error::NotFound)),
        Some(current) if current != base => return Ok(Ok(ChangeOutcome::Stale)),
        Some(_) => (),
    }
    raise_version(transaction).await?;
    for write in &writes {
        if let PolicyWrite::Put(row) = write
            && let Some(reason) = conflict_reason(row)
            && transaction.is_taken(row.as_row()).await?
        {
            return Ok(Err(Error::Conflict { reason }));
        }
        apply_write(transaction, tenant, write).await?;
    }
    if !destroyed_versions.is_empty() {
        transaction.delete_sealing_keys(tenant, &destroyed_versions).await?;
    }
    put_seal(transaction, tenant, seal).await?;
    insert_commit_extras(transaction, tenant, &extras, "done").await?;
    Ok(Ok(ChangeOutcome::Done))
}

/// Deletes one version of a sealing key.
pub(crate) const DELETE_SEALING_KEY: &str = "
-- delete_sealing_key
DELETE FROM tenant_keys WHERE tenant = $1 AND version = $2";

/// Why a row with a value of another row is rejected. `None` for rows without unique values.
fn conflict_reason(row: &EntityRow) -> Option<&'static str> {
    match row {
        EntityRow::ApiKey(_) => Some("this key is in use"),
        EntityRow::Proxy(_) => Some("another proxy has this host"),
        EntityRow::Tenant(_)
        | EntityRow::Application(_)
        | EntityRow::Webhook(_)
        | EntityRow::ClientKey(_) => None,
    }
}

async fn apply_write<T: PolicyTransaction>(
    transaction: &T,
    tenant: TenantId,
    write: &PolicyWrite,
) -> Result<(), StoreError> {
    match write {
        PolicyWrite::Put(EntityRow::Tenant(row)) => put_tenant(transaction, row).await,
        PolicyWrite::Put(row) => put_row(transaction, row.as_row()).await,
        PolicyWrite::Remove(id) => {
            let statement = &statements(id.entity())?.delete;
            transaction.execute(statement, &parameters![tenant, id.uuid()]).await.map(drop)
        }
    }
}

/// Writes the row of a tenant and its keys. The MAC over the whole policy is written afterwards, by
/// [`put_seal`].
pub(super) async fn put_tenant<T: PolicyTransaction>(
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

pub(super) async fn put_seal(
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

/// An attacker may have inserted the row, and leftovers may be deleted again.
const REMOVE_DELETED_TENANT: &str = "
-- remove_deleted_tenant
DELETE FROM deleted_tenants WHERE id = $1";

const INSERT_DELETED_TENANT: &str = "
-- insert_deleted_tenant
INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ($1, $2, $3)";

pub(crate) async fn delete_tenant<T: PolicyTransaction>(
    transaction: &mut T,
    deletion: &TenantDeletion,
    audit: &AuditRecord,
) -> Result<Result<ChangeOutcome, Error>, StoreError> {
    let tenant = deletion.tenant();
    if deletion.requires_policy_check() {
        let check_result = match load_policy_or_error(transaction, tenant).await? {
            Ok(Some(records)) => deletion.check(&records),
            Ok(None) => return Ok(Ok(ChangeOutcome::Stale)),
            Err(error) => Err(error),
        };
        if let Err(error) = check_result {
            return Ok(Err(error));
        }
    }
    raise_version(transaction).await?;
    for sql in delete_usage_statements() {
        transaction.execute(&sql, &parameters![tenant]).await?;
    }
    if transaction.delete_tenant_row(tenant).await? == 0 {
        return Ok(Ok(ChangeOutcome::Stale));
    }
    let deleted_tenant = audit.sign_deleted_tenant(tenant);
    let row = parameters![tenant, deleted_tenant.deleted_at, &deleted_tenant.mac];
    transaction.execute(REMOVE_DELETED_TENANT, &parameters![tenant]).await?;
    transaction.execute(INSERT_DELETED_TENANT, &row).await?;
    transaction.append_audit_record(tenant, audit, &tenant.to_string(), "done").await?;
    transaction.record_tenant_end(tenant, audit, deletion.retention_seconds());
    Ok(Ok(ChangeOutcome::Done))
}
