//! Tenants and policy changes.

use scrip_core::{
    Error, Timestamp,
    audit::{AuditRecord, DeletedTenant},
    change::{ChangeOutcome, DecidePolicyRestore, LoadedPolicy, PolicyEdit, PolicyRestore},
    policy::{
        EntityRow, POLICY_ENTITIES, PolicyEntity, PolicyPermit, PolicyRecords, PolicySeal,
        PolicyWrite, TenantDeletion, entity::Entity,
    },
    store::{FinishedPass, PolicyStore},
    types::{StoreError, StoreFuture, id::TenantId},
};
use scrip_seal::Mac;

use crate::{
    policy_turns::ChangeTurn,
    shared::{
        idempotency::insert_commit_extras,
        policy::{
            changes::{
                PolicyTransaction, delete_usage_statements, put_seal, put_tenant, raise_version,
            },
            directory::{load_policy, load_stored_policy},
            statements::{put_row, statements},
        },
    },
    sql::{
        ColumnReader, Execute, Statements, WriteTransaction, parameters, read_optional,
        read_required,
    },
    stores::key_rotations::finish_pass,
};

const FIND_SEAL: &str = "
-- find_seal
SELECT policy_counter, policy_mac FROM tenants WHERE id = $1";

/// An attacker may have inserted the row, and leftovers may be deleted again.
const REMOVE_DELETED_TENANT: &str = "
-- remove_deleted_tenant
DELETE FROM deleted_tenants WHERE id = $1";

const INSERT_DELETED_TENANT: &str = "
-- insert_deleted_tenant
INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ($1, $2, $3)";

const LIST_DELETED_TENANTS: &str = "
-- list_deleted_tenants
SELECT id, deleted_at, mac FROM deleted_tenants";

const FIND_DELETIONS: &str = "
-- find_deletions
SELECT id, deleted_at, mac FROM deleted_tenants WHERE id = $1";

const RESTORED_KEY_TAKEN: &str = "an API key of the backup is in a row of another tenant. If the policy of \
                         that tenant is altered too, the row was moved: delete it from the table \
                         api_keys with an SQL tool, and run the command again";
const RESTORED_PROXY_TAKEN: &str = "a proxy of the backup has the key or the host of a row of another \
                           tenant. If the policy of that tenant is altered too, the row was \
                           moved: delete it from the table proxies with an SQL tool. Otherwise \
                           remove the host from the other proxy. Then run the command again";

for_both_engines! {
impl PolicyStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        let tenant = records.tenant.record.id;
        Box::pin(self.write(tenant, async move |it| {
            raise_version(it).await?;
            put_tenant(it, &records.tenant).await?;
            put_seal(it, tenant, records.seal).await?;
            it.append_audit_record(tenant, &audit, &tenant.to_string(), "done").await
        }))
    }

    fn load_policy<'a>(
        &'a self,
        permit: &'a PolicyPermit,
    ) -> StoreFuture<'a, Result<LoadedPolicy, Error>> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            let guard = self.policy_turns.wait(tenant).await;
            let turn = ChangeTurn::new(guard, self.wait_for_processes().await);
            let records = match explain_corruption(self.read_policy(tenant).await)? {
                Ok(Some(records)) => records,
                Ok(None) => return Ok(Err(Error::NotFound)),
                Err(error) => return Ok(Err(error)),
            };
            Ok(Ok(LoadedPolicy { records, turn: Some(Box::new(turn)) }))
        })
    }

    fn change_policy(
        &self,
        permit: PolicyPermit,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| change_policy(it, tenant, edit).await))
    }

    fn destroy_sealing_keys(
        &self,
        permit: PolicyPermit,
        finished: Option<FinishedPass>,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        let tenant = permit.tenant().id;
        let change = self.write(tenant, async move |it| {
            let outcome = match finished {
                Some(finished) => finish_pass(it, tenant, finished).await?,
                None => ChangeOutcome::Done,
            };
            if outcome == ChangeOutcome::Stale {
                let reason = "the rotation changed since the values were counted";
                return Ok(Err(Error::Conflict { reason }));
            }
            change_policy(it, tenant, edit).await
        });
        Box::pin(async move {
            let outcome = change.await?;
            self.erase_log().await?;
            Ok(outcome)
        })
    }

    fn restore_policy(
        &self,
        permit: PolicyPermit,
        decide: DecidePolicyRestore,
    ) -> StoreFuture<'_, Result<(), Error>> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| restore_policy(it, tenant, decide).await))
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        let tenant = deletion.tenant();
        let delete = self.write(tenant, async move |it| {
            if deletion.requires_policy_check() {
                let loaded = load_policy(it, &Self::KEYS, tenant).await;
                let check_result = match explain_corruption(loaded)? {
                    Ok(Some(records)) => deletion.check(&records),
                    Ok(None) => return Ok(Ok(ChangeOutcome::Stale)),
                    Err(error) => Err(error),
                };
                if let Err(error) = check_result {
                    return Ok(Err(error));
                }
            }
            raise_version(it).await?;
            for sql in delete_usage_statements() {
                it.execute(&sql, &parameters![tenant]).await?;
            }
            if it.delete_tenant_row(tenant).await? == 0 {
                return Ok(Ok(ChangeOutcome::Stale));
            }
            let deleted_tenant = audit.sign_deleted_tenant(tenant);
            let row = parameters![tenant, deleted_tenant.deleted_at, &deleted_tenant.mac];
            it.execute(REMOVE_DELETED_TENANT, &parameters![tenant]).await?;
            it.execute(INSERT_DELETED_TENANT, &row).await?;
            it.append_audit_record(tenant, &audit, &tenant.to_string(), "done").await?;
            it.record_tenant_end(tenant, &audit, deletion.retention_seconds());
            Ok(Ok(ChangeOutcome::Done))
        });
        Box::pin(async move {
            let outcome = delete.await?;
            self.erase_log().await?;
            Ok(outcome)
        })
    }

    /// Skips rows that cannot be decoded, because Scrip did not write them.
    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        Box::pin(async move {
            let client = self.for_all_tenants();
            let rows = client.query(LIST_DELETED_TENANTS, &[], decode_deleted_tenant).await?;
            Ok(rows.into_iter().flatten().collect())
        })
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.purge(tenants, now))
    }
}
}

/// Returns the reason why a corrupt policy cannot be changed.
fn explain_corruption<T>(loaded: Result<T, StoreError>) -> Result<Result<T, Error>, StoreError> {
    match loaded {
        Ok(loaded) => Ok(Ok(loaded)),
        Err(StoreError::Corrupt(reason)) => Ok(Err(Error::Unavailable(reason.into()))),
        Err(
            error @ (StoreError::Busy | StoreError::AlreadyCompleted | StoreError::Unavailable(_)),
        ) => Err(error),
    }
}

/// Writes a change if the policy still has the seal on which the change was decided. A policy whose
/// rows were altered after that keeps an invalid MAC, because only the decided rows were sealed.
async fn change_policy<T: PolicyTransaction>(
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
            && let row = row.as_row()
            && let Some(reason) = conflict_reason(row.entity())
            && transaction.is_taken(row).await?
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

/// The message for an entity that is not named below.
const VALUE_TAKEN: &str = "another row has a value that must be unique";

/// Why a row with a value of another row is rejected. `None` for an entity without unique values.
fn conflict_reason(entity: &Entity) -> Option<&'static str> {
    entity.unique_columns().next().map(|_| match entity.name {
        "api_key" => "this key is in use",
        "proxy" => "another proxy has this host",
        _ => VALUE_TAKEN,
    })
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

/// Why a row cannot be restored whose unique value another tenant has. `None` for an entity without
/// unique values.
fn restore_conflict_reason(entity: &Entity) -> Option<&'static str> {
    entity.unique_columns().next().map(|_| match entity.name {
        "api_key" => RESTORED_KEY_TAKEN,
        "proxy" => RESTORED_PROXY_TAKEN,
        _ => VALUE_TAKEN,
    })
}

async fn restore_policy<T: PolicyTransaction>(
    transaction: &mut T,
    tenant: TenantId,
    decide: DecidePolicyRestore,
) -> Result<Result<(), Error>, StoreError> {
    let mut stored = load_stored_policy(transaction, &T::KEYS, tenant).await?;
    let key = parameters![tenant];
    let deletions = transaction.query(FIND_DELETIONS, &key, decode_deleted_tenant).await?;
    stored.deletions = deletions.into_iter().flatten().collect();
    let PolicyRestore { records, replaces_keys, audit } = match decide(stored) {
        Ok(restore) => restore,
        Err(error) => return Ok(Err(error)),
    };
    raise_version(transaction).await?;
    delete_rows(transaction, tenant).await?;
    if replaces_keys {
        // Also deletes the keys.
        transaction.delete_tenant_row(tenant).await?;
    }
    put_tenant(transaction, &records.tenant).await?;
    put_seal(transaction, tenant, records.seal).await?;
    for row in records.rows() {
        if let Some(reason) = restore_conflict_reason(row.entity())
            && transaction.is_taken(row).await?
        {
            return Ok(Err(Error::Conflict { reason }));
        }
        put_row(transaction, row).await?;
    }
    transaction.append_audit_record(tenant, &audit, &tenant.to_string(), "done").await?;
    Ok(Ok(()))
}

/// Replaces all rows of a policy except the stored keys. The caller has checked every row.
pub(super) async fn replace_policy<T: PolicyTransaction>(
    transaction: &T,
    records: &PolicyRecords,
) -> Result<(), StoreError> {
    delete_rows(transaction, records.tenant.record.id).await?;
    put_tenant(transaction, &records.tenant).await?;
    for row in records.rows() {
        put_row(transaction, row).await?;
    }
    Ok(())
}

/// Deletes all rows of a policy except the row of the tenant. Rows that refer to others come first.
async fn delete_rows<T: PolicyTransaction>(
    transaction: &T,
    tenant: TenantId,
) -> Result<(), StoreError> {
    for PolicyEntity { entity, .. } in POLICY_ENTITIES.iter().rev() {
        let statement = &statements(entity)?.delete_of_tenant;
        transaction.execute(statement, &parameters![tenant]).await?;
    }
    Ok(())
}

/// A MAC that cannot be decoded becomes an invalid MAC.
fn decode_deleted_tenant(row: &dyn ColumnReader) -> Result<Option<DeletedTenant>, StoreError> {
    let Ok(tenant) = read_required(row, 0) else { return Ok(None) };
    let deleted_at = read_optional(row, 1).ok().flatten().unwrap_or(Timestamp { unix_ms: 0 });
    let mac = read_required(row, 2).unwrap_or(Mac([0; 32]));
    Ok(Some(DeletedTenant { tenant, deleted_at, mac }))
}
